package policy

import (
	"errors"
	"strings"
	"testing"
)

// TestCheckVariable checks who may read variables. On a developer's own machine an app
// may read the environment. On a shared host, or with a policy file, it may read only
// granted variables. It may never read variables that configure the host, in upper or
// lower case.
func TestCheckVariable(t *testing.T) {
	file, problems := decodePolicy(t, `grants:
- {apps: [shop], variables: [COMPANY, SHOP_*]}
- {apps: [all], variables: ["*"]}
- {apps: [keys], secrets: [KEY]}
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	host := Host{Variables: []string{"OPS_TOKEN"}}
	shared := host
	shared.Shared = true
	own, served, granted := (*Policy)(nil).For(host), (*Policy)(nil).For(shared), file.For(shared)
	for _, tt := range []struct {
		name          string
		policy        *Policy
		app, variable string
		want          bool
	}{
		{"own machine", own, "shop", "COMPANY", true},
		{"own machine without a host", nil, "shop", "COMPANY", true},
		{"own machine, host's token", own, "shop", "OPS_TOKEN", false},
		{"own machine, host's token in lower case", own, "shop", "ops_token", false},
		{"own machine, host's flag", nil, "shop", "AGENTHOST_SESSION_DB", false},
		{"own machine, database password", nil, "shop", "PGPASSWORD", false},
		{"own machine, bucket", nil, "shop", "AWS_SECRET_ACCESS_KEY", false},
		{"own machine, headers of traces", nil, "shop", "OTEL_EXPORTER_OTLP_HEADERS", false},
		{"own machine, proxy", nil, "shop", "https_proxy", false},
		{"shared", served, "shop", "COMPANY", false},
		{"granted by name", granted, "shop", "COMPANY", true},
		{"granted by prefix", granted, "shop", "SHOP_X", true},
		{"another case", granted, "shop", "company", false},
		{"longer name", granted, "shop", "COMPANY2", false},
		{"another app", granted, "desk", "COMPANY", false},
		{"everything granted", granted, "all", "ANY", true},
		{"everything granted, host's token", granted, "all", "OPS_TOKEN", false},
		{"everything granted, password", granted, "all", "PGPASSWORD", false},
		{"granted as a secret only", granted, "keys", "KEY", false},
	} {
		err := tt.policy.CheckVariable(tt.app, tt.variable)
		if got := err == nil; got != tt.want {
			t.Errorf("%s: CheckVariable(%s, %s) = %v, want it to be allowed: %v", tt.name, tt.app, tt.variable, err, tt.want)
		}
	}
	if err := granted.CheckSecret("keys", "KEY"); err != nil {
		t.Errorf("a granted secret: %v", err)
	}
	if err := granted.CheckSecret("shop", "COMPANY"); err != nil {
		t.Errorf("a granted variable used as a secret: %v", err)
	}
	if granted.CheckSecret("shop", "KEY") == nil || granted.CheckSecret("all", "OPS_TOKEN") == nil {
		t.Error("a secret of another app, or of the host, is allowed")
	}
}

// TestCheckValue expects a value with a host secret to be refused: as the whole value, as a
// password in a URL, and as a part of a longer value.
func TestCheckValue(t *testing.T) {
	p := (&Policy{}).For(Host{Values: []string{"postgres://u:hunter22@db/app", "hunter22", "the-token-of-ops-1", "x"}})
	for value, want := range map[string]bool{
		"postgres://u:hunter22@db/app": false, " hunter22\n": false, "postgresql://other:hunter22@10.0.0.1/x": false, "Bearer the-token-of-ops-1": false,
		"hunter2": true, "my-hunter22": true, "https://example.com/x": true, "x": true, "": true,
	} {
		if got := p.CheckValue("shop", "the variable X", value) == nil; got != want {
			t.Errorf("CheckValue(%q) allowed = %v, want %v", value, got, want)
		}
	}
}

// TestRefusedHint expects the hint to name the flag, the policy file, and a line that
// grants the action. An action that cannot be granted has no hint.
func TestRefusedHint(t *testing.T) {
	p, _ := decodePolicy(t, "grants: []")
	for _, tt := range []struct {
		policy *Policy
		want   string
	}{
		{p, `add this line under grants: in policy.yaml (--policy): - {apps: [shop], variables: ["COMPANY"]}`},
		{(*Policy)(nil).For(Host{Shared: true}), `add this line under grants: in policy.yaml, and pass --policy policy.yaml: - {apps: [shop], variables: ["COMPANY"]}`},
	} {
		refused := (*Refused)(nil)
		if !errors.As(tt.policy.CheckVariable("shop", "COMPANY"), &refused) || refused.Hint() != tt.want {
			t.Errorf("Hint() = %q, want %q", refused.Hint(), tt.want)
		}
		_, line, _ := strings.Cut(refused.Hint(), ": - ")
		again, _ := decodePolicy(t, "grants:\n- "+line)
		if err := again.CheckVariable("shop", "COMPANY"); err != nil {
			t.Errorf("with the hinted grant: %v", err)
		}
	}
	refused := (*Refused)(nil)
	if !errors.As(p.CheckVariable("shop", "PGPASSWORD"), &refused) || refused.Hint() != "" || refused.Error() != "app shop may not read the environment variable PGPASSWORD (it configures the host)" {
		t.Errorf("Error of PGPASSWORD = %q, hint %q", refused.Error(), refused.Hint())
	}
}
