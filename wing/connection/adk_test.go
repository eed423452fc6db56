package connection

import (
	"fmt"
	"strings"
	"testing"

	"agenthost/pkg/spec"
)

// TestADKAuth reads ADK's auth_scheme and auth_credential: each pair is a connection, or an
// error at its place.
func TestADKAuth(t *testing.T) {
	const codeFlow = "{authorizationCode: {authorizationUrl: https://id.example.com/auth, tokenUrl: https://id.example.com/token, scopes: {write: '', read: Reads}}}"
	for _, c := range []struct{ name, scheme, credential, want string }{
		{"API key", "{type: apiKey, in: query, name: k}", "{auth_type: apiKey, api_key: v}", `["" "api_key" "query" "k" "v"] []`},
		{"camel case", "{type: apiKey, in: header, name: X-Key}", "{authType: apiKey, apiKey: v}", `["" "api_key" "header" "X-Key" "v"] []`},
		{"bearer", "{type: http, scheme: bearer}", "{auth_type: http, http: {scheme: bearer, credentials: {token: v}}}", `["v"] []`},
		{"basic", "{type: http, scheme: basic}", "{auth_type: http, http: {scheme: basic, credentials: {username: u, password: p}}}", `["" "basic" "u" "p"] []`},
		{"access token", "{type: oauth2, flows: " + codeFlow + "}", "{auth_type: oauth2, oauth2: {access_token: v}}", `["v"] []`},
		{
			"code", "{type: oauth2, flows: " + codeFlow + "}", "{auth_type: oauth2, oauth2: {client_id: i, client_secret: s}}",
			`["" "oauth2" "authorization_code" "" "https://id.example.com/auth" "https://id.example.com/token" "i" "s" "client_secret_basic" "" "2" "read" "write"] []`,
		},
		{
			"client credentials first", "{type: oauth2, flows: {clientCredentials: {tokenUrl: https://id.example.com/token}, authorizationCode: {authorizationUrl: https://id.example.com/auth}}}",
			"{auth_type: oauth2, oauth2: {client_id: i, client_secret: s, tokenEndpointAuthMethod: client_secret_post}}",
			`["" "oauth2" "client_credentials" "" "" "https://id.example.com/token" "i" "s" "client_secret_post" "" "0"] []`,
		},
		{
			"issuer", "{type: oauth2, issuer_url: https://id.example.com}", "{auth_type: oauth2, oauth2: {client_id: i}}",
			`["" "oauth2" "authorization_code" "https://id.example.com" "" "" "i" "" "client_secret_basic" "" "0"] []`,
		},
		{
			"OpenID Connect", "{type: openIdConnect, openIdConnectUrl: https://id.example.com/.well-known/openid-configuration, scopes: [openid]}", "{auth_type: openIdConnect, oauth2: {client_id: i}}",
			`["" "oauth2" "authorization_code" "https://id.example.com" "" "" "i" "" "client_secret_basic" "" "1" "openid"] []`,
		},
		{
			"OpenID Connect with endpoints", "{type: openIdConnect, authorization_endpoint: https://id.example.com/auth, token_endpoint: https://id.example.com/token, scopes: [openid]}",
			"{auth_type: openIdConnect, oauth2: {client_id: i}}",
			`["" "oauth2" "authorization_code" "" "https://id.example.com/auth" "https://id.example.com/token" "i" "" "client_secret_basic" "" "1" "openid"] []`,
		},
		{
			"service account", "{type: http, scheme: bearer}",
			"{auth_type: serviceAccount, service_account: {scopes: [s], service_account_credential: {type: service_account, project_id: p, private_key_id: k, private_key: v, client_email: r@p, client_id: '1', auth_uri: x, token_uri: https://id.example.com/token}}}",
			`["" "google" "v" "" "s"] []`,
		},
		{"account of the host", "{type: http, scheme: bearer}", "{auth_type: serviceAccount, service_account: {use_default_credential: true}}", `["" "google" "" "" "https://www.googleapis.com/auth/cloud-platform"] ["sheets.googleapis.com"]`},
		{"credential alone", "", "{auth_type: apiKey, api_key: v}", "1:1: auth_scheme and auth_credential require each other"},
		{"place", "{type: apiKey}", "{auth_type: apiKey, api_key: v}", "1:14: an auth_scheme with type apiKey requires in and name"},
		{"no key", "{type: apiKey, in: query, name: k}", "{auth_type: apiKey}", "2:18: an auth_scheme with type apiKey requires api_key in auth_credential"},
		{"no http", "{type: http}", "{auth_type: http}", "2:18: an auth_scheme with type http requires http in auth_credential"},
		{"digest", "{type: http, scheme: digest}", "{http: {scheme: digest, credentials: {token: v}}}", `2:18: the scheme "digest" is not supported, only basic and bearer`},
		{"no password", "{type: http, scheme: basic}", "{http: {credentials: {username: u}}}", "2:18: the scheme basic requires username and password in credentials"},
		{"no token", "{type: http, scheme: bearer}", "{http: {credentials: {username: u}}}", "2:18: the scheme bearer requires token in credentials"},
		{"no client", "{type: oauth2, flows: " + codeFlow + "}", "{oauth2: {client_secret: s}}", "2:18: an auth_scheme with type oauth2 requires oauth2 with client_id in auth_credential"},
		{"no flow", "{type: oauth2}", "{oauth2: {client_id: i}}", "1:14: an auth_scheme with type oauth2 requires flows or issuer_url"},
		{"password flow", "{type: oauth2, flows: {password: {tokenUrl: https://id.example.com}}}", "{oauth2: {client_id: i}}", "1:14: the flows implicit and password are not supported"},
		{"no TLS", "{type: oauth2, issuer_url: http://id.example.com}", "{oauth2: {client_id: i}}", "1:41: the address of the authorization server must start with https://"},
		{"two accounts", "{type: http}", "{service_account: {scopes: [s]}}", "2:18: service_account requires exactly one of service_account_credential and use_default_credential"},
		{"no audience", "{type: http}", "{service_account: {use_default_credential: true, use_id_token: true}}", "2:18: use_id_token requires audience"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "auth_credential: " + c.credential + "\n"
			if c.scheme != "" {
				text = "auth_scheme: " + c.scheme + "\n" + text
			}
			n, ds := spec.Parse("f.yaml", []byte(text))
			a := &ADKAuth{}
			ds = append(ds, spec.Decode(n, a)...)
			hosts := []string{"sheets.googleapis.com"}
			ds = append(ds, a.Check(n, hosts)...)
			var got string
			for _, d := range ds {
				if d.Severity != spec.Warning {
					got += fmt.Sprintf("%d:%d: %s", d.Pos.Line, d.Pos.Col, d.Message)
				}
			}
			if ref := a.Ref(hosts); ref != nil {
				got += ref.Inline.Fingerprint()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestADKAuth_Key checks that users' tokens are stored under credential_key, or under a name that
// depends on the server and the client, and not on the secret.
func TestADKAuth_Key(t *testing.T) {
	name := func(extra string) string {
		n, ds := spec.Parse("f.yaml", []byte("auth_scheme: {type: oauth2, issuer_url: https://id.example.com}\nauth_credential: {oauth2: {client_id: i"+extra))
		a := &ADKAuth{}
		if ds = append(ds, spec.Decode(n, a)...); ds.HasErrors() {
			t.Fatal(ds)
		}
		return a.Ref(nil).Name.Value
	}
	if got := name("}}\ncredential_key: crm"); got != "crm" {
		t.Errorf("name = %s, want crm", got)
	}
	one, renewed, other := name(", client_secret: a}}"), name(", client_secret: b}}"), name("d}}")
	if one != renewed || one == other || !strings.HasPrefix(one, "adk_oauth2_") {
		t.Errorf("names = %s, %s, %s", one, renewed, other)
	}
}

// TestADKAuth_InFile warns about a credential in the file, without showing it.
func TestADKAuth_InFile(t *testing.T) {
	n, _ := spec.Parse("f.yaml", []byte("auth_credential: {http: {credentials: {token: t0ken-in-file}}}"))
	ds := spec.Decode(n, &ADKAuth{})
	if len(ds) != 1 || ds[0].Rule != "key-in-file" || strings.Contains(fmt.Sprint(ds), "t0ken") || ds[0].Source != "" {
		t.Errorf("diagnostics = %v", ds)
	}
}
