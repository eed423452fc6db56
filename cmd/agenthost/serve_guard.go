package main

import (
	"fmt"
	"net"

	"agenthost/pkg/server"
)

// serverOptions is what the flags say of who is let in.
func (f *serveFlags) serverOptions() (*server.Options, error) {
	callers, err := f.loadAuth()
	if err != nil {
		return nil, err
	}
	opts := &server.Options{Auth: callers}
	if opts.RunsPerUser, err = server.ParseRate(f.runsPerUser); err != nil {
		return nil, fmt.Errorf("--runs-per-user %w", err)
	}
	if opts.RunsPerApp, err = server.ParseRate(f.runsPerApp); err != nil {
		return nil, fmt.Errorf("--runs-per-app %w", err)
	}
	reachable, err := f.isReachable()
	f.load.reserved.Shared = reachable || callers != nil || f.insecure
	switch {
	case err != nil:
		return nil, err
	case reachable && callers == nil && !f.insecure:
		return nil, fmt.Errorf("--addr %s can be reached from other machines, and nobody is asked who they are: "+
			"say by --auth who may call, listen on 127.0.0.1 behind a proxy that asks, or say --insecure", f.addr)
	case len(f.allowedHosts) > 0:
		opts.AllowedHosts = f.allowedHosts
	case !reachable && !f.insecure:
		// A page of another name must not reach a host that only this machine may
		// talk to.
		opts.AllowedHosts = []string{"127.0.0.1", "localhost", "[::1]"}
	}
	return opts, nil
}

// isReachable says whether other machines can reach the address.
func (f *serveFlags) isReachable() (bool, error) {
	name, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return false, fmt.Errorf("--addr %q: write HOST:PORT, such as %s", f.addr, defaultAddr)
	}
	ip := net.ParseIP(name)
	return name != "localhost" && (ip == nil || !ip.IsLoopback()), nil
}
