package main

import (
	"fmt"
	"net"
	"slices"

	"agenthost/pkg/server"
)

// serverOptions returns the server options for authentication, rate limits and allowed hosts.
func (f *serveFlags) serverOptions() (*server.Options, error) {
	authenticator, err := f.loadAuth()
	if err != nil {
		return nil, err
	}
	opts := &server.Options{
		Auth: authenticator, Version: buildVersion(), MaxRunTime: f.maxRunTime, KeepAlive: f.keepAlive, AutoCreateSession: f.createSession,
		MaxResponseBytes: int64(f.maxAnswers), PublicURL: f.grants.PublicURL,
	}
	if opts.RunsPerUser, err = server.ParseRate(f.runsPerUser); err != nil {
		return nil, fmt.Errorf("--runs-per-user %w", err)
	}
	if opts.RunsPerApp, err = server.ParseRate(f.runsPerApp); err != nil {
		return nil, fmt.Errorf("--runs-per-app %w", err)
	}
	reachable, err := f.isReachable()
	f.load.Reserved.Shared = reachable || authenticator != nil || f.insecure
	switch {
	case err != nil:
		return nil, err
	case reachable && authenticator == nil && !f.insecure:
		return nil, fmt.Errorf("--addr %s is not a loopback address, and authentication is not configured: "+
			"set --auth, listen on 127.0.0.1 behind a proxy that authenticates requests, or pass --insecure", f.addr)
	case len(f.allowedHosts) > 0:
		opts.AllowedHosts = f.allowedHosts
	case !reachable && !f.insecure:
		// Guard against DNS rebinding: only loopback names may address a local host.
		opts.AllowedHosts = []string{"127.0.0.1", "localhost", "[::1]"}
	}
	if public := f.grants.PublicHost(); public != "" && len(opts.AllowedHosts) > 0 {
		opts.AllowedHosts = append(slices.Clip(opts.AllowedHosts), public)
	}
	return opts, nil
}

// isReachable reports whether other machines can reach the address.
func (f *serveFlags) isReachable() (bool, error) {
	name, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return false, fmt.Errorf("--addr must be HOST:PORT, such as %s, got %q", defaultAddr, f.addr)
	}
	ip := net.ParseIP(name)
	return name != "localhost" && (ip == nil || !ip.IsLoopback()), nil
}
