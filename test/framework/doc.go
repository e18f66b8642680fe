// Package framework gives tests a real kcp or Kubernetes, the real controller and real tenants.
//
// A test package starts one kcp for all its tests:
//
//	func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }
//
// Most tests share one platform, whose controller runs, and take tenants and address
// space of their own on it. They may run in parallel:
//
//	func TestClaim_ByClass(t *testing.T) {
//		platform := framework.SharedPlatform(t)
//		name, cidr := framework.Name(t), platform.CIDR(t)
//		framework.Create(t, platform, gen.Class(name), gen.Pool(name, gen.CIDR(cidr), gen.Backs(name)))
//
//		tenant := platform.Tenant(t)
//		claim := gen.Claim("web", gen.OfClass(name), gen.Length(28))
//		framework.Create(t, tenant, claim)
//		framework.WaitBound(t, tenant, claim)
//	}
//
// Platform and Tenant are clients: a Platform for a user with the roles of the platform's people, a Tenant for a user
// with the roles of a tenant's people. Each user has a token and no right anywhere else, and is never kcp's admin.
// [Tenant.Owner] is a cluster-admin of the tenant's workspace, [Admin] is kcp's own admin.
//
// A test that stops, kills or counts takes a platform of its own with [NewPlatform] and starts the controller itself
// with [Platform.StartController]. The controller is a process, built from cmd/ipam-controller and logged in as its
// service account; its etcd stays when it is killed. A test that calls [RestartKCP] must not be parallel, because all
// other tests are on the same kcp.
//
// A package with tests about shards has a kcp of two shards, from [MainOnShards]. Its tests place their tenants with
// [Platform.TenantOn], and end a shard with [KillShard].
//
// A test without kcp takes a real Kubernetes with [NewStandalone]: an API server and the
// controllers that clean up, without nodes, beside the kcp of the package.
//
// A wait ends as soon as its fact is true. If it never is, the test fails with what was seen last, and with the end
// of the controller's log. If a test has failed, data and logs are kept, in the folder that is printed.
package framework
