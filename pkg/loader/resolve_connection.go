package loader

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A toolConnection is a tool's connection, with its resource key. The connection is nil if the tool
// has none.
type toolConnection struct {
	connection *connection.Connection
	key        resourceKey
}

// checkConnections validates all declared connections, used or not, so that their secrets
// are known.
func (r *resolver) checkConnections() {
	for _, p := range sortedParts(r.app.names.connections) {
		if !p.shared {
			r.decodeConnection(p)
		}
	}
}

// decodeConnection returns a declared connection, or nil if it has errors, which it
// reports once.
func (r *resolver) decodeConnection(p part) connection.Config {
	if c, ok := r.connections[p.node]; ok {
		return c
	}
	c, ds := r.loader.decodeConnectionNode(p.node, false)
	r.report(ds...)
	r.connections[p.node] = c
	return c
}

// decodeConnectionNode decodes a document's connection; it is nil if there are errors. A tool's
// connection is inline: it has no name.
func (l *Loader) decodeConnectionNode(n *spec.Node, inline bool) (connection.Config, spec.Diagnostics) {
	if l.kinds.Connections == nil {
		return nil, spec.Diagnostics{connection.Unsupported(n)}
	}
	c, ds := l.kinds.Connections.Decode(n, inline)
	if ds.HasErrors() {
		return nil, ds
	}
	return c, ds
}

// decodeInlineConnection decodes the connection in a tool's settings, if they contain one.
func (l *Loader) decodeInlineConnection(config any) (ds spec.Diagnostics) {
	c, ok := config.(connection.RefConfig)
	if !ok {
		return nil
	}
	ref := c.Connection()
	if ref == nil || ref.Node == nil || ref.Inline != nil || !ref.IsInline() {
		return nil
	}
	ref.Inline, ds = l.decodeConnectionNode(ref.Node, true)
	return ds
}

// resolveConnection returns the connection that a tool's config names, for its addresses. It
// returns false if there are errors, which it reports.
func (r *resolver) resolveConnection(config any, doc tool.Document, addresses []spec.Text) (toolConnection, bool) {
	var ref *connection.Ref
	switch c := config.(type) {
	case connection.RefConfig:
		ref = c.Connection()
	case tool.DocumentConnectionConfig:
		found, ds := c.DocumentConnection(doc)
		r.report(ds...)
		if ds.HasErrors() {
			return toolConnection{}, false
		}
		ref = found
	}
	if ref == nil {
		return toolConnection{}, true
	}
	name, c := cmp.Or(ref.Name.Value, "inline"), ref.Inline
	if c == nil {
		if name, c = r.discoverConnection(ref); c == nil {
			name, c = ref.Name.Value, r.findConnection(ref)
		}
		if c == nil {
			return toolConnection{}, false
		}
	}
	source, key, ok := r.acquireSource(ref, name, c)
	if !ok {
		return toolConnection{}, false
	}
	hosts := c.HostNames()
	if len(hosts) == 0 {
		for _, address := range addresses {
			hosts = append(hosts, connection.HostOf(address.Value))
		}
	}
	conn := connection.New(name, source, hosts)
	if ds := checkConnectionHosts(conn, name, ref, addresses); len(ds) > 0 {
		r.report(ds...)
		return toolConnection{}, false
	}
	return toolConnection{conn, hashResourceKey("connection", string(key[:]), strings.Join(hosts, " "))}, true
}

// acquireSource returns a connection's source: a new one, or the one that another tool or the
// previous revision uses, with its tokens. Its key differs if the credentials differ. It returns
// false if there are errors, which it reports.
func (r *resolver) acquireSource(ref *connection.Ref, name string, c connection.Config) (connection.Source, resourceKey, bool) {
	kind := r.loader.kinds.Connections
	if kind == nil {
		r.report(connection.Unsupported(ref.Node))
		return nil, resourceKey{}, false
	}
	for _, address := range c.Addresses() {
		if ds := r.checkAddress(address.Value, address); ds.HasErrors() {
			r.report(ds...)
			return nil, resourceKey{}, false
		}
	}
	if c.UsesHostAccount() {
		if ds := policyDiagnostic(r.loader.opts.Policy.CheckGoogleAccount(r.src.name), ref.Node.Text()); ds.HasErrors() {
			r.report(ds...)
			return nil, resourceKey{}, false
		}
	}
	subject, ok := r.resolveSubject(c)
	if !ok {
		return nil, resourceKey{}, false
	}
	policy, app := r.loader.opts.Policy, r.src.name
	mayRegister := func() error { return policy.CheckRegistration(app) }
	key := hashResourceKey("credentials", r.src.name, name, c.Fingerprint(), string(subject.key[:]))
	source, release, err := acquireResource(r.loader.resources, key, func() (connection.Source, func() error, error) {
		client, end := r.acquireToolClient(configAddresses(c))
		source, err := kind.Open(c, connection.Env{HTTP: client, App: r.src.name, Name: name, Subject: subject.connection, MayRegister: mayRegister})
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return source, end, nil
	})
	if err != nil {
		r.reportBuildError(ref.Node, "connection", err)
		return nil, resourceKey{}, false
	}
	r.held.add(release)
	return source, key, true
}

// resolveSubject returns the connection whose tokens a connection exchanges; the result's
// connection is nil if there is none. It returns false if there are errors, which it reports.
func (r *resolver) resolveSubject(c connection.Config) (toolConnection, bool) {
	ref := c.Subject()
	if ref == nil {
		return toolConnection{}, true
	}
	name := ref.Name.Value
	other := r.findConnection(ref)
	if other == nil {
		return toolConnection{}, false
	}
	if other.Subject() != nil {
		r.report(ref.Node.Errorf("connection", "subject must have its own tokens, but %s exchanges another connection's tokens", name))
		return toolConnection{}, false
	}
	source, key, ok := r.acquireSource(ref, name, other)
	if !ok {
		return toolConnection{}, false
	}
	hosts := other.SubjectHosts()
	conn := connection.New(name, source, hosts)
	if ds := checkConnectionHosts(conn, name, ref, c.Addresses()); len(ds) > 0 {
		r.report(ds...)
		return toolConnection{}, false
	}
	return toolConnection{conn, hashResourceKey("connection", string(key[:]), strings.Join(hosts, " "))}, true
}

// discoverConnection returns the connection that a service's own metadata describes, if the
// reference asks for it and app.yaml declares none with its name.
func (r *resolver) discoverConnection(ref *connection.Ref) (name string, c connection.Config) {
	kind, ok := r.loader.kinds.Connections.(connection.Discoverer)
	if _, declared := r.app.names.connections[ref.Name.Value]; !ok || declared || ref.Name.Value != connection.Discovered || ref.Resource.Value == "" {
		return "", nil
	}
	return kind.Discover(ref.Resource)
}

// findConnection returns a declared connection by name, or nil if there is none.
func (r *resolver) findConnection(ref *connection.Ref) connection.Config {
	p, ok := r.app.names.connections[ref.Name.Value]
	if !ok {
		if !r.appBroken {
			r.report(unknownNameError(ref.Node, "connection %s under connections in app.yaml", ref.Name.Value, slices.Sorted(maps.Keys(r.app.names.connections))))
		}
		return nil
	}
	r.markUsed(p)
	return r.decodeConnection(p)
}

// checkConnectionHosts reports a tool's addresses to which its connection may not send the
// credential. Those in a document are reported at the reference.
func checkConnectionHosts(conn *connection.Connection, name string, ref *connection.Ref, addresses []spec.Text) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, address := range addresses {
		err := conn.CheckAddress(address.Value)
		report := func(format string, args ...any) spec.Diagnostic {
			return address.Errorf(0, "connection", format, args...)
		}
		if address.Pos.File != ref.Node.Pos.File {
			report = func(format string, args ...any) spec.Diagnostic {
				return ref.Node.Errorf("connection", format, args...)
			}
		}
		other := (*connection.HostError)(nil)
		switch {
		case errors.Is(err, connection.ErrInsecure):
			ds = append(ds, report("connection %s requires https: anyone on the network could read the credential", name).
				WithHint("write https://"))
		case errors.As(err, &other):
			ds = append(ds, report("connection %s may not send its credential to %s", name, other.Host).
				WithHint("add %s to hosts of the connection", other.Host))
		}
	}
	return ds
}
