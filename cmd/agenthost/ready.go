package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

const (
	// maxReadyBytes limits the response size.
	maxReadyBytes = 64 << 10
	// readyTimeout limits how long a host may take to respond.
	readyTimeout = 3 * time.Second
)

func newReadyCommand(env command.Env) *cobra.Command {
	var addr string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Check whether a host is ready",
		Long: `Ready checks the readiness of the host that listens on --addr. When the host is not
ready, it prints the reasons and exits with status 1. Use it as the health check of
a container that contains no other program.`,
		Args:    command.RequireArgs(0, 0),
		PreRunE: command.ApplyEnvironment,
		RunE:    func(cmd *cobra.Command, _ []string) error { return checkReady(cmd.Context(), env, addr, asJSON) },
	}
	cmd.Flags().StringVar(&addr, "addr", defaultAddr, "address that serve listens on")
	command.RegisterOutput(cmd.Flags(), &asJSON, false)
	return cmd
}

func checkReady(ctx context.Context, std command.Env, addr string, asJSON bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--addr must be HOST:PORT, such as %s, got %q", defaultAddr, addr)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	at := net.JoinHostPort(dialHost(host), port)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("--addr %q: %w", addr, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return notReady("no host responds at %s", at)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReadyBytes))
	var body struct {
		Ready   *bool    `json:"ready"`
		Reasons []string `json:"reasons"`
	}
	if err != nil || json.Unmarshal(text, &body) != nil || body.Ready == nil {
		return notReady("the server at %s is not an agenthost: status %d", at, res.StatusCode)
	}
	if asJSON {
		if err := std.PrintJSON(map[string]any{"ready": *body.Ready, "reasons": append([]string{}, body.Reasons...)}); err != nil {
			return err
		}
		if !*body.Ready {
			return &command.ExitError{Code: command.ExitProblems}
		}
		return nil
	}
	for _, reason := range body.Reasons {
		fmt.Fprintln(std.Err, reason)
	}
	if !*body.Ready {
		return notReady("the host at %s is not ready", at)
	}
	fmt.Fprintln(std.Out, "ready")
	return nil
}

func notReady(format string, args ...any) error {
	return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf(format, args...)}
}

// dialHost returns the loopback address for a host that listens on all addresses.
func dialHost(host string) string {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case host == "":
		return "127.0.0.1"
	case err == nil && ip.IsUnspecified() && ip.Is4():
		return "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}
