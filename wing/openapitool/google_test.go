package openapitool

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	connections "agenthost/wing/connection"
)

// decodeGoogle decodes a toolset's args and reads the planner document.
func decodeGoogle(t *testing.T, kindName, args string) (spec.Plan[tool.Env, tool.Set], tool.Document) {
	t.Helper()
	n := mustParse(t, args)
	ds := spec.Interpolate(n, func(_, name string) (string, error) { return "s3cret-" + name, nil })
	kind, ok := Toolsets[connections.ADKAuth](connections.Google{}).Lookup(kindName)
	if !ok {
		t.Fatalf("unknown toolset %s", kindName)
	}
	plan, more := kind.Decode(n)
	if ds = append(ds, more...); !ds.HasErrors() {
		ds = append(ds, plan.Config.(spec.Checker).Check(n)...)
	}
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	found, ds := plan.Config.(tool.DocumentConfig).ReadDocument("planner.json", []byte(planner(t, "https://planner.googleapis.com")))
	if found == nil {
		t.Fatal(ds)
	}
	// A stored revision's document has the same tools and scopes.
	again, ds := plan.Config.(tool.DocumentConfig).ReadDocument("planner.json", found.Reduced())
	if again == nil {
		t.Fatal(ds)
	}
	return plan, again
}

const plannerArgs = "{api_name: planner, api_version: v1, spec: planner.json, "

// An OAuth client becomes a connection for users with Google's endpoints and the scopes that the
// operations need.
func TestGoogleUsers(t *testing.T) {
	const planScope = "https://www.googleapis.com/auth/planner"
	for _, tt := range []struct {
		args   string
		scopes []string
	}{
		{"tool_filter: [planner_plans_list]", []string{planScope + ".readonly"}},
		{"tool_filter: [planner_plans_list, planner_plans_export, planner_ping]", []string{planScope + ".readonly"}},
		{"tool_filter: [planner_plans_list, planner_plans_insert]", []string{planScope}},
		{"tool_filter: [planner_plans_insert, planner_plans_export]", []string{planScope, planScope + ".readonly"}},
		{"tool_filter: [planner_plans_list], additional_scopes: [email, email]", []string{planScope + ".readonly", "email"}},
		{"scopes: [a], additional_scopes: [b]", []string{"a", "b"}},
	} {
		plan, doc := decodeGoogle(t, "GoogleApiToolset", plannerArgs+tt.args+", client_id: id, client_secret: \"${secret:CLIENT}\"}")
		ref, ds := plan.Config.(tool.DocumentConnectionConfig).DocumentConnection(doc)
		if len(ds) > 0 || !ref.Inline.(*connections.Config).IsPerUser() || !strings.HasPrefix(ref.Name.Value, "GoogleApiToolset_") {
			t.Fatalf("%s: connection = %+v, %s", tt.args, ref, ds)
		}
		words := []string{"", "oauth2", "authorization_code", "", "https://accounts.google.com/o/oauth2/v2/auth", "https://oauth2.googleapis.com/token", "id", "s3cret-CLIENT", "client_secret_post", "", fmt.Sprint(len(tt.scopes))}
		if diff := cmp.Diff(fmt.Sprintf("%q %q", append(words, tt.scopes...), []string{"*.googleapis.com"}), ref.Inline.Fingerprint()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
	names := map[string]bool{}
	for _, args := range []string{"client_id: a}", "client_id: a, client_secret: s}", "client_id: b}", "client_id: a, scopes: [x]}"} {
		plan, doc := decodeGoogle(t, "GoogleApiToolset", plannerArgs+args)
		ref, _ := plan.Config.(tool.DocumentConnectionConfig).DocumentConnection(doc)
		names[ref.Name.Value] = true
	}
	if len(names) != 3 {
		t.Errorf("names = %v, want one for each client with its scopes", names)
	}
}

// The scope is the API's; requests that only read get one that only reads.
func TestPreferScope(t *testing.T) {
	for _, tt := range []struct {
		scopes    string
		readsOnly bool
		want      string
	}{
		{"calendar calendar.events calendar.events.owned.readonly calendar.readonly", true, "calendar.readonly"},
		{"calendar calendar.events calendar.readonly", false, "calendar"},
		{"drive drive.file drive.readonly presentations presentations.readonly", true, "presentations.readonly"},
		{"drive drive.file presentations spreadsheets.readonly", false, "presentations"},
		{"documents documents.readonly drive drive.readonly", true, "documents.readonly"},
		{"drive drive.metadata.readonly drive.readonly", true, "drive.readonly"},
		{"bigquery cloud-platform cloud-platform.read-only", true, "bigquery"},
		{"cloud-platform", false, "cloud-platform"},
	} {
		const prefix = "https://www.googleapis.com/auth/"
		var scopes []string
		for _, name := range strings.Fields(tt.scopes) {
			scopes = append(scopes, prefix+name)
		}
		if got := preferScope(scopes, tt.readsOnly); got != prefix+tt.want {
			t.Errorf("preferScope(%s, %t) = %s, want %s", tt.scopes, tt.readsOnly, got, tt.want)
		}
	}
}

// rewriteHosts sends all requests to one server, and keeps their hosts.
type rewriteHosts struct{ to *url.URL }

// RoundTrip implements [http.RoundTripper].
func (r rewriteHosts) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	sent.Header.Set("X-Trace-Id", req.URL.Scheme+"://"+req.URL.Host)
	sent.URL.Scheme, sent.URL.Host = r.to.Scheme, r.to.Host
	return http.DefaultTransport.RoundTrip(sent)
}

// A service account calls an API with its own token. The token goes only to Google.
func TestGoogleAccount(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/token":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"access_token": "s3cret-access", "token_type": "Bearer", "expires_in": 3600}`)
		case "/planner/v1/owners/away/plans":
			http.Redirect(w, r, "https://evil.example.com/taken", http.StatusFound)
		default:
			echo(w, r)
		}
	})
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: rewriteHosts{to}}
	key := newAccountKey(t)
	for _, args := range []string{
		"service_account: " + fmt.Sprintf("%q", key) + "}",
		"service_account: {service_account_credential: " + fmt.Sprintf("%q", key) + ", scopes: [a]}}",
	} {
		plan, doc := decodeGoogle(t, "GoogleApiToolset", plannerArgs+"tool_name_prefix: my, additional_headers: {X-Tenant: \"{user:tenant}\"}, "+args)
		ref, ds := plan.Config.(tool.DocumentConnectionConfig).DocumentConnection(doc)
		if len(ds) > 0 {
			t.Fatal(ds)
		}
		source, err := connections.NewKind(nil).Open(ref.Inline, connection.Env{HTTP: client})
		if err != nil {
			t.Fatal(err)
		}
		set, err := plan.Build(t.Context(), tool.Env{
			Logger: slog.New(slog.DiscardHandler), HTTP: client, Document: doc, Connection: connection.New(ref.Name.Value, source, ref.Inline.HostNames()),
		})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := set.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list := tools[slices.IndexFunc(tools, func(one tool.Tool) bool { return one.Declaration().Name == "my_planner_plans_list" })]
		for owner, want := range map[string]string{
			"me":   "GET /planner/v1/owners/me/plans?dueAfter=x\nAuthorization: Bearer ***\nX-Tenant: acme\nX-Trace-Id: https://planner.googleapis.com\n",
			"away": "GET /taken\nX-Trace-Id: https://evil.example.com\n",
		} {
			if diff := cmp.Diff(want, callTool(t.Context(), list, map[string]any{"owner_id": owner, "due_after": "x"})); diff != "" {
				t.Errorf("request of %s (-want +got):\n%s", owner, diff)
			}
		}
	}
}

// newAccountKey returns a service account's key.
func newAccountKey(t *testing.T) string {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@p.example.com", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(key)
}

// The host's account has no key, and the policy must grant it.
func TestGoogleHostAccount(t *testing.T) {
	plan, doc := decodeGoogle(t, "GoogleApiToolset", plannerArgs+"service_account: {use_default_credential: true}}")
	ref, ds := plan.Config.(tool.DocumentConnectionConfig).DocumentConnection(doc)
	if len(ds) > 0 || !ref.Inline.UsesHostAccount() || !slices.Equal(ref.Inline.HostNames(), []string{"*.googleapis.com"}) {
		t.Errorf("connection = %+v, %s", ref, ds)
	}
}

// Each ADK toolset has its document's address.
func TestGoogleToolsets(t *testing.T) {
	var got []string
	for _, kind := range Toolsets[connections.ADKAuth](connections.Google{}) {
		if kind.Name == "OpenAPIToolset" {
			continue
		}
		n := mustParse(t, "{api_name: drive, api_version: v3, client_id: x}")
		if kind.Name != "GoogleApiToolset" {
			n = mustParse(t, "{client_id: x}")
		}
		plan, ds := kind.Decode(n)
		if ds.HasErrors() {
			t.Fatal(ds)
		}
		ds = plan.Config.(spec.Checker).Check(n)
		if len(ds) != 1 {
			t.Fatalf("%s: %s", kind.Name, ds)
		}
		_, rest, _ := strings.Cut(ds[0].Hint, "apis/")
		address, _, _ := strings.Cut(rest, "/rest")
		got = append(got, kind.Name+" "+address)
	}
	want := []string{
		"GoogleApiToolset drive/v3", "BigQueryApiToolset bigquery/v2", "CalendarToolset calendar/v3", "DocsToolset docs/v1", "GmailToolset gmail/v1",
		"SheetsToolset sheets/v4", "SlidesToolset slides/v1", "YoutubeToolset youtube/v3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("toolsets (-want +got):\n%s", diff)
	}
}
