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
// Platform and Tenant are clients: a Platform as somebody with the roles of the
// platform's people, a Tenant as somebody with the roles of a tenant's people. Both are
// users with a token of their own and no right anywhere else, never kcp's admin.
// [Tenant.Owner] is a cluster-admin of the tenant's workspace, [Admin] is kcp's own admin.
//
// A test that stops, kills or counts takes a platform of its own with [NewPlatform] and
// starts the controller itself with [Platform.StartController]. The controller is a
// process of its own, built from cmd/ipam-controller and logged in as its service
// account; its etcd stays when it is killed. A test that calls [RestartKCP] must not be
// parallel, as everybody else is on it.
//
// A package whose tests are about shards has a kcp of two, from [MainOnShards]: they say
// where their tenants are with [Platform.TenantOn], and end a shard with [KillShard].
//
// A test without kcp takes a real Kubernetes with [NewStandalone]: an API server and the
// controllers that clean up, without nodes, beside the kcp of the package.
//
// A wait ends when its fact is there. If it does not come, the test fails with what
// was seen last, and with the end of the controller's log. What was stored and logged
// is kept, in the folder that is printed, if a test has failed.
package framework
