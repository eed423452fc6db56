package policy

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

func decodePolicy(t *testing.T, text string) (*Policy, []string) {
	t.Helper()
	n, ds := spec.Parse("policy.yaml", []byte(text))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	p, ds := Decode(n)
	return p, ds.Strings()
}

// TestDecodeGrants covers valid and invalid grants.
func TestDecodeGrants(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{}},
		{"all forms", "grants:\n- {apps: [a], network: [10.0.0.0/8, 10.1.2.3, '10.1.2.3:80', crm.internal, 'crm.internal:8443', '[fd00::1]:443', 'fd00::/8', '::1', '*.example.com', '*.example.com:443', '*', '*:443']}", []string{}},
		{"no entries", "grants:\n- {network: ['http://10.0.0.1', '', 'a b', '10.0.0.0/99', 'a.*.internal']}", []string{
			`policy.yaml:2:15: "http://10.0.0.1" is not an address, a range or a host name [grant]`,
			`policy.yaml:2:34: "" is not an address, a range or a host name [grant]`,
			`policy.yaml:2:38: "a b" is not an address, a range or a host name [grant]`,
			`policy.yaml:2:45: "10.0.0.0/99" is not an address, a range or a host name [grant]`,
			`policy.yaml:2:60: "a.*.internal" is not an address, a range or a host name [grant]`,
		}},
		{"commands", "grants:\n- {apps: [a], commands: [[npx, -y, server], [ls]], env: [TOKEN]}", []string{}},
		{"no commands", "grants:\n- {commands: [ls, []]}\n- {network: [10.0.0.1], env: [TOKEN]}\n- x", []string{
			`policy.yaml:2:15: expected a list, got a string [type]`,
			`policy.yaml:2:19: a command requires a program, such as [npx, -y, server] [grant]`,
			`policy.yaml:3:30: env requires commands [grant]`,
			`policy.yaml:4:3: expected a mapping, got a string [type]`,
		}},
		{"names", "grants:\n- {apps: [a], variables: [NAME, SHOP_*, '*'], secrets: [tls.key]}", []string{}},
		{"no names", "grants:\n- {variables: ['', 'A B', '*_KEY', PGPASSWORD, AGENTHOST_SESSION_DB], secrets: ['../x']}", []string{
			`policy.yaml:2:17: "" is not the name of a variable or a secret [grant]`,
			`policy.yaml:2:21: "A B" is not the name of a variable or a secret [grant]`,
			`policy.yaml:2:28: "*_KEY" is not the name of a variable or a secret [grant]`,
			`policy.yaml:2:36: PGPASSWORD configures the host and cannot be granted [grant]`,
			`policy.yaml:2:48: AGENTHOST_SESSION_DB configures the host and cannot be granted [grant]`,
			`policy.yaml:2:82: "../x" is not the name of a variable or a secret [grant]`,
		}},
		{"one permission", "grants:\n- {apps: [a], sampling: true}\n- {apps: [a], google_account: true}", []string{}},
		{"no apps", "grants:\n- {apps: [], network: [10.0.0.1]}", []string{`policy.yaml:2:10: apps is empty; list the apps, or omit the key for all apps [grant]`}},
		{"unknown", "grant: []\ngrants:\n- {app: [a]}", []string{
			`policy.yaml:1:1: unknown field "grant" [unknown-field]`,
			`policy.yaml:3:3: a grant requires network, variables, secrets, commands, skills, sampling, google_account or register_clients [required]`,
			`policy.yaml:3:4: unknown field "app" [unknown-field]`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := decodePolicy(t, tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrivateRanges covers an address of each non-public range, and adjacent public ones.
func TestPrivateRanges(t *testing.T) {
	for _, private := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.9", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.7", "203.0.113.9",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:10.0.0.1", "::127.0.0.1", "::a00:1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1",
		"64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:db8::1", "3fff::1", "100::1", "fc00::1", "fd12:3456::1", "fe80::1",
		"fe80::1%eth0", "febf::1", "fec0::1", "ff02::1", "fd00:ec2::254", "5f00::1",
		"::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1", "fe80::5efe:8.8.8.8",
	} {
		if !Private(netip.MustParseAddr(private)) {
			t.Errorf("Private(%s) = false", private)
		}
	}
	for _, public := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
		"169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2606:4700:4700::1111", "2a00:1450::1", "::ffff:0:8.8.8.8", "2606:4700::5efe:8.8.8.8",
	} {
		if Private(netip.MustParseAddr(public)) {
			t.Errorf("Private(%s) = true", public)
		}
	}
}

// TestParseAddr covers the forms of addresses that some resolver accepts.
func TestParseAddr(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "127.0.0.1.": "127.0.0.1", "2130706433": "127.0.0.1", "0x7f000001": "127.0.0.1", "0X7F.1": "127.0.0.1",
		"017700000001": "127.0.0.1", "0177.0.0.1": "127.0.0.1", "127.1": "127.0.0.1", "127.0.1": "127.0.0.1", "0": "0.0.0.0", "0x0": "0.0.0.0",
		"2852039166": "169.254.169.254", "0xa9fea9fe": "169.254.169.254", "169.254.43518": "169.254.169.254", "10.257": "10.0.1.1",
		"[::1]": "::1", "::ffff:127.0.0.1": "127.0.0.1", "0:0:0:0:0:ffff:7f00:1": "127.0.0.1", "fe80::1%25eth0": "fe80::1", "fe80::1%eth0": "fe80::1",
	} {
		got, ok := ParseAddr(host)
		if !ok || got.String() != want {
			t.Errorf("ParseAddr(%s) = %v, %v, want %s", host, got, ok, want)
		}
	}
	for _, host := range []string{"example.com", "", "1.2.3.4.5", "256.0.0.1", "0x", "1.2.3.256", "4294967296", "08.0.0.1", "127.0.0.-1", "1_2.0.0.1", "a.1"} {
		if got, ok := ParseAddr(host); ok {
			t.Errorf("ParseAddr(%q) = %v, want none", host, got)
		}
	}
}
