package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// kubectl get shows what people look for, without JSON. That includes waiting and retained objects.
func TestColumns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(28), gen.Lease("1h"))
	s.ownPool(gen.CIDR("10.0.0.0/26"), gen.Backs(s.name, "edge"))
	s.holds("web", gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.Within("location", "ams"))
	former := s.holds("former", gen.Length(27), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Delete(t, s.tenant, former)
	record := s.retained(former)
	large := gen.Claim("large", gen.OfClass(s.name), gen.Length(24))
	lost := gen.Claim("lost", gen.OfClass("nobodys"), gen.Length(25))
	framework.Create(t, s.tenant, large, lost)
	framework.WaitAllocated(t, s.tenant, large, ipamv1alpha1.ReasonPoolExhausted)
	framework.WaitAllocated(t, s.tenant, lost, ipamv1alpha1.ReasonClassNotFound)

	retained := fmt.Sprintf("former/%s/%s", former.UID, former.Status.AllocationID)
	for _, row := range []struct {
		access  *rest.Config
		path    string
		columns string
		want    string
	}{
		{s.platform.UserConfig(t, "ipam-class-admin"), "ipclasses/" + s.name, "Lengths Default Reclaim Message", "/24–/28 28 Delete claims may use the class"},
		{s.tenant.Config(), "ippools/own", "Classes Util Available Message", s.name + ",edge 75.0% 16 holds 10.0.0.0/26"},
		{s.tenant.Config(), "namespaces/default/ipclaims/web", "Class Requested Reclaim Scope Message",
			s.name + ` /28 Retain {"location":{"apiGroup":"networking.example.com","kind":"Location","name":"ams"}} bound to 10.0.0.0/28`},
		{s.tenant.Config(), "namespaces/default/ipclaims/large", "Class Requested Reason", s.name + " /24 PoolExhausted"},
		{s.tenant.Config(), "namespaces/default/ipclaims/lost", "Class Requested Reason", "nobodys /25 ClassNotFound"},
		{s.tenant.Config(), "namespaces/default/ipallocations/" + record.Name, "Claim Retained-From Reclaim Expires",
			"<nil> " + retained + " Retain " + record.Status.Expires.UTC().Format(time.RFC3339)},
	} {
		framework.Eventually(t, row.path, func(ctx context.Context) error {
			shown, err := cells(ctx, row.access, row.path, strings.Fields(row.columns))
			if err != nil {
				return err
			}
			if diff := cmp.Diff(row.want, shown); diff != "" {
				return fmt.Errorf("%s (-want +got):\n%s", row.columns, diff)
			}
			return nil
		})
	}
}

// cells returns the cells that the server shows for an object in these columns, as kubectl requests them.
func cells(ctx context.Context, access *rest.Config, path string, columns []string) (string, error) {
	access = rest.CopyConfig(access)
	access.GroupVersion = &schema.GroupVersion{Group: ipamv1alpha1.GroupName, Version: "v1alpha1"}
	access.APIPath, access.NegotiatedSerializer = "/apis", serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	c, err := rest.RESTClientFor(access)
	if err != nil {
		return "", err
	}
	table := &metav1.Table{}
	err = c.Get().AbsPath("/apis", ipamv1alpha1.GroupName, "v1alpha1", path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Into(table)
	if err != nil || len(table.Rows) != 1 {
		return "", fmt.Errorf("get %s as a table of one row: %d rows, %w", path, len(table.Rows), err)
	}
	var shown []string
	for _, name := range columns {
		for i, column := range table.ColumnDefinitions {
			if column.Name == name {
				shown = append(shown, fmt.Sprint(table.Rows[0].Cells[i]))
			}
		}
	}
	return strings.Join(shown, " "), nil
}
