package policy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

// privateAddresses returns private addresses: loopback, private networks, metadata services.
func privateAddresses() []string {
	return []string{"127.0.0.1", "127.8.8.8", "10.0.0.5", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.100.100.200", "192.0.0.192", "0.0.0.0"}
}

// addressForms returns the ways to write an IPv4 address as a URL's host.
func addressForms(text string) []string {
	b := netip.MustParseAddr(text).As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	high, low := n>>16, n&0xffff
	wide := strings.NewReplacer("0", "０", "1", "１", "2", "２", "5", "５", "9", "９", ".", "。").Replace(text)
	all := []string{
		text, text + ".", "8.8.8.8@" + text, "example.com:80@" + text, wide, url.PathEscape(wide), strings.ReplaceAll(text, ".", "%2e"), fmt.Sprintf("%%3%c%s", text[0], text[1:]),
		fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0%o", n), fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]), fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], low), fmt.Sprintf("0x%x.%d.0%o", b[0], b[1], low),
		"name-of-" + strings.ReplaceAll(text, ".", "-") + ".test", strings.ReplaceAll(text, ".", "-") + ".nip.test",
	}
	for _, form := range []string{"::ffff:%s", "::%s", "0:0:0:0:0:ffff:%s", "64:ff9b::%s", "64:ff9b:1::%s", "::ffff:0:%s", "fd00::%s", "2606:4700::5efe:%s", "2606:4700::200:5efe:%s"} {
		all = append(all, "["+fmt.Sprintf(form, text)+"]", "["+fmt.Sprintf(form, fmt.Sprintf("%x:%x", high, low))+"]")
	}
	return append(all, fmt.Sprintf("[2002:%x:%x::1]", high, low), fmt.Sprintf("[2001:0:808:808:0:0:%x:%x]", ^high&0xffff, ^low&0xffff), "[::ffff:"+text+"%25lo]", "[::1]", "[fe80::1%25lo]")
}

// TestDisguisedAddresses requests private addresses in several hundred forms, directly,
// by redirect and by name. A rejected request makes no connection attempt. The control
// records the addresses that a client without a guard would connect to.
func TestDisguisedAddresses(t *testing.T) {
	first := newTestServer(t)
	requests, attempts, refused, control := 0, 0, 0, 0
	for _, addr := range privateAddresses() {
		names := newResolver(t, addr)
		g := (*Policy)(nil).Guard("shop")
		g.resolve = names
		if err := g.Check(first.URL); err != nil {
			t.Fatal(err)
		}
		transport := g.Transport()
		transport.DialContext = countConnections(&attempts, first.port, transport.DialContext)
		guarded, open := &http.Client{Transport: transport}, &http.Client{Transport: newCountingTransport(&control, names)}
		for _, host := range addressForms(addr) {
			target := "http://" + host + ":81/latest/meta-data"
			for _, address := range []string{target, first.URL + "/?to=" + url.QueryEscape(target)} {
				requests++
				err := getURL(guarded, address)
				if err == nil {
					t.Errorf("%s was reached", address)
				}
				if attempt := (*os.SyscallError)(nil); errors.As(err, &attempt) {
					attempts++
					t.Errorf("%s: connection attempt: %v", address, err)
				}
				if denied := (*Refused)(nil); errors.As(err, &denied) {
					refused++
				}
			}
			_ = getURL(open, target)
		}
		transport.CloseIdleConnections()
	}
	if requests < 300 || refused < requests/2 || control < 150 {
		t.Errorf("%d requests, %d refused as private, %d connections of the control: too few", requests, refused, control)
	}
	t.Logf("shown: %d URLs, half of them after a redirect: %d refused as private, the others invalid, %d connection attempts; control, half of them without a guard: %d connection attempts", requests, refused, attempts, control)
}

// countConnections wraps a dial function and counts established connections, except to
// the port of an allowed server.
func countConnections(n *int, port string, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil && !strings.HasSuffix(address, ":"+port) {
			*n++
		}
		return conn, err
	}
}

// newCountingTransport returns a transport without a guard. It counts connection
// attempts to private addresses and fails them.
func newCountingTransport(n *int, names *net.Resolver) *http.Transport {
	d := &net.Dialer{Resolver: names, Control: func(_, address string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); err == nil && Private(at.Addr()) {
			*n++
		}
		return errors.New("counted")
	}}
	return &http.Transport{DialContext: d.DialContext}
}
