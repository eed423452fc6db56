package main

import (
	"net"
	"net/netip"

	"agenthost/pkg/loader"
)

// reserveListener adds the addresses of the host itself to the policy of the loader, so
// that apps cannot call the host.
func (f *serveFlags) reserveListener(opts *loader.Options, at net.Addr) {
	host := f.load.Reserved
	host.Names = f.allowedHosts
	if own, err := netip.ParseAddrPort(at.String()); err == nil {
		host.Listeners = append(host.Listeners, own)
	}
	opts.Policy = opts.Policy.For(host)
}
