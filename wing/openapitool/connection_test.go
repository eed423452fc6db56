package openapitool

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	connections "agenthost/wing/connection"
)

const connectedDoc = `openapi: 3.0.3
info: {title: t, version: "1"}
servers: [{url: HOST}]
security: [{token: []}]
paths:
  /private: {get: {operationId: private, responses: {"200": {description: ok}}}}
  /public: {get: {operationId: public, security: [], responses: {"200": {description: ok}}}}
  /away: {get: {operationId: away, responses: {"200": {description: ok}}}}
components: {securitySchemes: {token: {type: oauth2, flows: {}}}}
`

// TestConnectionAuthorizesOperations checks that operations that ask for a credential get the
// connection's, that those with an empty security and other hosts get none, and that responses do
// not show it.
func TestConnectionAuthorizesOperations(t *testing.T) {
	foreign := serve(t, echo)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, foreign.URL+"/taken", http.StatusFound)
			return
		}
		echo(w, r)
	})
	node, ds := spec.Parse("app.yaml", []byte("bearer: s3cret-token"))
	credentials := connections.NewKind(nil)
	c, problems := credentials.Decode(node, false)
	if ds = append(ds, problems...); ds.HasErrors() {
		t.Fatal(ds)
	}
	source, err := credentials.Open(c, connection.Env{})
	if err != nil {
		t.Fatal(err)
	}
	settings, ds := spec.Parse("app.yaml", []byte("spec: api.yaml\nauth: crm"))
	kind, _ := Kinds().Lookup("openapi")
	plan, more := kind.Decode(settings)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	if ref := plan.Config.(connection.RefConfig).Connection(); ref == nil || ref.Name.Value != "crm" {
		t.Fatalf("connection = %+v, want crm", ref)
	}
	doc, ds := plan.Config.(tool.DocumentConfig).ReadDocument("api.yaml", []byte(strings.ReplaceAll(connectedDoc, "HOST", s.URL)))
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	set, err := plan.Build(t.Context(), tool.Env{
		Logger: slog.New(slog.DiscardHandler), Document: doc, Connection: connection.New("crm", source, []string{connection.HostOf(s.URL)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"private": "GET /private\nAuthorization: Bearer ***\n", "public": "GET /public\n", "away": "GET /taken\n"}
	for _, one := range tools {
		name := one.Declaration().Name
		res, err := one.Run(t.Context(), &tool.Call{Args: map[string]any{}})
		if err != nil || res.Response["text"] != want[name] {
			t.Errorf("%s = %v, %v, want %q", name, res, err, want[name])
		}
	}
}
