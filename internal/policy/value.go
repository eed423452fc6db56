package policy

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// CheckVariable checks whether an app may read a variable in the host's environment, by name. It
// returns nil or a [*Refused]. An app's own .env needs no check.
func (p *Policy) CheckVariable(app, name string) error {
	switch {
	case p.configuresHost(name):
		return p.newRefused(app, "read the environment variable "+name, "it configures the host", "")
	case p.isOwnMachine() || p.hasMatchingGrant(app, func(g *grant) bool { return matchesAnyPattern(g.variables, name) }):
		return nil
	}
	return p.newRefused(app, "read the environment variable "+name, "", "variables: "+quoteYAMLList(name))
}

// CheckSecret checks whether an app may use a shared secret, by name: a file directly
// in the secrets folder, or a variable. It returns nil or a [*Refused]. The app's own
// secrets folder needs no check.
func (p *Policy) CheckSecret(app, name string) error {
	switch {
	case p.configuresHost(name):
		return p.newRefused(app, "use the secret "+name, "it configures the host", "")
	case p.isOwnMachine() || p.hasMatchingGrant(app, func(g *grant) bool { return matchesAnyPattern(g.secrets, name) || matchesAnyPattern(g.variables, name) }):
		return nil
	}
	return p.newRefused(app, "use the secret "+name, "", "secrets: "+quoteYAMLList(name))
}

// CheckValue checks a variable or shared secret that the app may read by name: its value must not
// contain a host secret. It returns nil or a [*Refused].
func (p *Policy) CheckValue(app, name, value string) error {
	if p != nil && slices.ContainsFunc(p.host.Values, func(secret string) bool { return containsSecret(value, secret) }) {
		return p.newRefused(app, "read "+name, "its value is a secret of the host", "")
	}
	return nil
}

// The minimum lengths of secrets that are searched for, as a whole value and as part
// of one. Shorter ones would match by accident.
const (
	minSecretLength     = 8
	minSecretPartLength = 16
)

func containsSecret(value, secret string) bool {
	value = strings.TrimSpace(value)
	if len(secret) < minSecretLength {
		return false
	}
	if value == secret || len(secret) >= minSecretPartLength && strings.Contains(value, secret) {
		return true
	}
	u, err := url.Parse(value)
	if err != nil {
		return false
	}
	password, _ := u.User.Password()
	return password == secret
}

// configuresHost reports whether a variable or secret with this name configures the host. It
// ignores case, as some systems do.
func (p *Policy) configuresHost(name string) bool {
	name = strings.ToUpper(name)
	// The prefixes are those of the host's flags and of the trace exporter.
	if slices.Contains(hostVariables(), name) || strings.HasPrefix(name, "AGENTHOST_") || strings.HasPrefix(name, "OTEL_EXPORTER_") {
		return true
	}
	return p != nil && slices.ContainsFunc(p.host.Variables, func(own string) bool { return strings.ToUpper(own) == name })
}

// hostVariables returns the variables that configure the host's databases (as pgx
// reads them), buckets and proxies.
func hostVariables() []string {
	return []string{
		"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGAPPNAME", "PGCONNECT_TIMEOUT",
		"PGSSLMODE", "PGSSLKEY", "PGSSLCERT", "PGSSLSNI", "PGSSLROOTCERT", "PGSSLPASSWORD", "PGSSLNEGOTIATION", "PGTARGETSESSIONATTRS",
		"PGSERVICE", "PGSERVICEFILE", "PGTZ", "PGOPTIONS", "PGMINPROTOCOLVERSION", "PGMAXPROTOCOLVERSION", "PGCHANNELBINDING", "PGREQUIREAUTH",
		"MYSQL_PWD", "MYSQL_ROOT_PASSWORD", "MYSQL_PASSWORD", "POSTGRES_PASSWORD",
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_PROFILE",
		"GOOGLE_APPLICATION_CREDENTIALS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
	}
}

// namePattern matches the name of a variable or secret, or a prefix with a *.
var namePattern = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*\*?|\*)$`)

func parsePatterns(texts []spec.Text) (patterns []string, ds spec.Diagnostics) {
	for _, text := range texts {
		switch {
		case !namePattern.MatchString(text.Value):
			ds = append(ds, text.Errorf(0, "grant", "%q is not the name of a variable or a secret", text.Value).
				WithHint("write NAME, PREFIX_* for all names with that prefix, or * for all names"))
		case !strings.HasSuffix(text.Value, "*") && (*Policy)(nil).configuresHost(text.Value):
			ds = append(ds, text.Errorf(0, "grant", "%s configures the host and cannot be granted", text.Value).
				WithHint("put the app's values in its .env, or in its folder in --secrets"))
		default:
			patterns = append(patterns, text.Value)
		}
	}
	return patterns, ds
}

func matchesAnyPattern(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, prefix)
	})
}
