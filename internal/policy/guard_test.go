package policy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// testServer is a server on a loopback address that counts its connections.
type testServer struct {
	*httptest.Server
	port        string
	connections atomic.Int64
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	h := &testServer{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if to := req.URL.Query().Get("to"); to != "" {
			http.Redirect(w, req, to, http.StatusFound)
		}
	}))
	h.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			h.connections.Add(1)
		}
	}
	h.Start()
	t.Cleanup(h.Close)
	_, h.port, _ = net.SplitHostPort(h.Listener.Addr().String())
	return h
}

// newResolver returns a resolver that resolves every name to the addresses in turn; the
// last one repeats.
func newResolver(t *testing.T, addrs ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			reply, isA := buildDNSReply(buf[:n], addrs[0])
			if isA && len(addrs) > 1 {
				addrs = addrs[1:]
			}
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// buildDNSReply returns a DNS response: the address for type A, empty for others.
func buildDNSReply(question []byte, addr string) (reply []byte, isA bool) {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	isA = binary.BigEndian.Uint16(question[end+1:]) == 1
	reply = append(reply, question[:end+5]...)
	binary.BigEndian.PutUint16(reply[2:], 0x8180)
	for i := 6; i < 12; i++ {
		reply[i] = 0
	}
	if isA {
		reply[7] = 1
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, net.ParseIP(addr).To4()...)
	}
	return reply, isA
}

func getURL(c *http.Client, address string) error {
	resp, err := c.Get(address)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// loopbackHosts returns hosts that are, or resolve to, a loopback address.
func loopbackHosts() []string {
	return []string{
		"127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001",
		"0.0.0.0", "0", "localhost", "LOCALHOST", "localhost.", "a.localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]", "rebound.test", "127.0.0.1.nip.test", "metadata.google.internal",
	}
}

// TestGuardRefusesLoopbackNames requests a server on a loopback address under every host name. No
// request may reach it. The control, a client without a guard, does.
func TestGuardRefusesLoopbackNames(t *testing.T) {
	h := newTestServer(t)
	control := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Resolver: newResolver(t, "127.0.0.1"), Timeout: 200 * time.Millisecond}).DialContext, DisableKeepAlives: true}}
	reached := 0
	for _, host := range loopbackHosts() {
		if getURL(control, "http://"+host+":"+h.port) == nil {
			reached++
		}
	}
	if reached < 10 {
		t.Fatalf("the control reached the server by %d hosts, want at least 10", reached)
	}
	policies := map[string]*Policy{"none": nil, "empty": {}}
	policies["others"], _ = decodePolicy(t, "grants:\n- {apps: [other], network: [127.0.0.0/8, '::1']}\n- {network: ['127.0.0.1:1', 10.0.0.0/8]}")
	for name, p := range policies {
		g := p.Guard("shop")
		g.resolve = newResolver(t, "127.0.0.1")
		c := &http.Client{Transport: g.Transport()}
		h.connections.Store(0)
		for _, host := range loopbackHosts() {
			err := getURL(c, "http://"+host+":"+h.port)
			if err == nil {
				t.Errorf("policy %s: %s was reached", name, host)
			}
		}
		if n := h.connections.Load(); n != 0 {
			t.Errorf("policy %s: %d connections were accepted", name, n)
		}
	}
	t.Logf("shown: %d hosts for a server of this machine: %d of them work without a guard", len(loopbackHosts()), reached)
}

// TestGuardRedirects allows a first server and expects its redirects to private
// addresses to be rejected; the control follows them.
func TestGuardRedirects(t *testing.T) {
	first, second := newTestServer(t), newTestServer(t)
	g := (*Policy)(nil).Guard("shop")
	g.resolve = newResolver(t, "127.0.0.1")
	if err := g.Check(first.URL); err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: g.Transport()}
	for _, host := range loopbackHosts() {
		to := first.URL + "/?to=" + url.QueryEscape("http://"+host+":"+second.port+"/")
		if err := getURL(c, to); err == nil {
			t.Errorf("a redirect to %s was followed", host)
		}
	}
	if first.connections.Load() == 0 || second.connections.Load() != 0 {
		t.Errorf("%d connections to the first server, %d to the second, want some and none", first.connections.Load(), second.connections.Load())
	}
	if err := getURL(http.DefaultClient, first.URL+"/?to="+url.QueryEscape(second.URL)); err != nil || second.connections.Load() != 1 {
		t.Errorf("control: %v, %d connections, want 1", err, second.connections.Load())
	}
}

// TestGuardRebinding uses a name that first resolves to a public address and then to
// a private one.
func TestGuardRebinding(t *testing.T) {
	h := newTestServer(t)
	g := (&Policy{grants: []grant{{targets: []target{{suffix: ".test"}}}}}).Guard("shop")
	g.resolve = newResolver(t, "127.0.0.1")
	address := "http://rebound.test:" + h.port
	if err := g.Check(address); err != nil {
		t.Errorf("Check = %v, want nil: names are checked when they are resolved", err)
	}
	err := getURL(&http.Client{Transport: g.Transport()}, address)
	want := fmt.Sprintf("app shop may not reach rebound.test:%s (a private address); "+
		"to allow it, add to grants in the --policy file: - {apps: [shop], network: [\"rebound.test:%s\"]}", h.port, h.port)
	if refused := (*Refused)(nil); !errors.As(err, &refused) || refused.Error() != want {
		t.Errorf("Get = %v, want %s", err, want)
	}
	if strings.Contains(fmt.Sprint(err), "127.0.0.1") {
		t.Errorf("Get = %v: want no resolved address", err)
	}
}

// TestGrantsAllowOnlyTheirAddresses expects apps to reach granted addresses and no others.
func TestGrantsAllowOnlyTheirAddresses(t *testing.T) {
	h := newTestServer(t)
	for _, tt := range []struct {
		name, policy, app, host string
		want                    bool
	}{
		{"a range", "{network: [127.0.0.0/8]}", "shop", "127.0.0.1", true},
		{"an address", "{network: [127.0.0.1]}", "shop", "127.0.0.1", true},
		{"another address", "{network: [127.0.0.2]}", "shop", "127.0.0.1", false},
		{"its port", "{network: ['127.0.0.1:" + h.port + "']}", "shop", "127.0.0.1", true},
		{"another port", "{network: ['127.0.0.1:1']}", "shop", "127.0.0.1", false},
		{"a name", "{network: [crm.internal]}", "shop", "crm.internal", true},
		{"an address for a name", "{network: [crm.internal]}", "shop", "127.0.0.1", false},
		{"an address by any name", "{network: [127.0.0.1]}", "shop", "crm.internal", true},
		{"its app", "{apps: [shop], network: [127.0.0.1]}", "shop", "127.0.0.1", true},
		{"another app", "{apps: [shop], network: [127.0.0.1]}", "desk", "127.0.0.1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ds := decodePolicy(t, "grants:\n- "+tt.policy)
			if len(ds) > 0 {
				t.Fatal(ds)
			}
			g := p.Guard(tt.app)
			g.resolve = newResolver(t, "127.0.0.1")
			if err := getURL(&http.Client{Transport: g.Transport()}, "http://"+tt.host+":"+h.port); (err == nil) != tt.want {
				t.Errorf("Get = %v, want granted %v", err, tt.want)
			}
		})
	}
}

// TestCheckBeforeNamesResolve checks addresses in documents before they are resolved: on a
// developer's own machine, on a shared host, and with a policy file.
func TestCheckBeforeNamesResolve(t *testing.T) {
	own, shared, strict := (*Policy)(nil), (*Policy)(nil).For(Host{Shared: true}), &Policy{}
	for _, tt := range []struct{ address, own, shared, strict string }{
		{"https://example.com/x", "", "", "reach example.com"},
		{"https://example.com:8443/x", "", "", "reach example.com:8443"},
		{"https://8.8.8.8", "", "", "reach 8.8.8.8"},
		{"http://10.0.0.5/x", "reach 10.0.0.5", "reach 10.0.0.5", "reach 10.0.0.5"},
		{"http://169.254.169.254/latest", "reach 169.254.169.254", "reach 169.254.169.254", "reach 169.254.169.254"},
		{"http://0xa9fea9fe/latest", "reach 0xa9fea9fe", "reach 0xa9fea9fe", "reach 0xa9fea9fe"},
		{"http://[fd00::1]:81/", "reach [fd00::1]:81", "reach [fd00::1]:81", "reach [fd00::1]:81"},
		{"http://127.0.0.1:8000", "", "reach 127.0.0.1:8000", "reach 127.0.0.1:8000"},
		{"http://localhost", "", "reach localhost", "reach localhost"},
		{"", "", "", ""},
	} {
		for i, p := range []*Policy{own, shared, strict} {
			got, want := "", []string{tt.own, tt.shared, tt.strict}[i]
			if refused := (*Refused)(nil); errors.As(p.Guard("shop").Check(tt.address), &refused) {
				got = refused.Action
			}
			if got != want {
				t.Errorf("Check(%s) with policy %d = %q, want %q", tt.address, i, got, want)
			}
		}
	}
}
