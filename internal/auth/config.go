package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// minTokenBytes is the minimum length of a static token.
const minTokenBytes = 16

type fileConfig struct {
	Tokens  []tokenConfig  `yaml:"tokens" doc:"Static tokens."`
	JWT     []issuerConfig `yaml:"jwt" doc:"Trusted issuers of JWTs."`
	UserID  spec.Expr      `yaml:"user_id" default:"claims.sub" doc:"Expression for the user ID; variable: claims."`
	Admin   spec.Expr      `yaml:"admin" default:"false" doc:"Whether the caller is an administrator, who may act as any user and access host endpoints; variable: claims."`
	Metrics spec.Expr      `yaml:"metrics" default:"false" doc:"Whether the caller may read /metrics without being an administrator; variable: claims."`
	Apps    spec.Expr      `yaml:"apps" default:"true" doc:"Whether the caller may use an app; variables: claims and app."`
}

type tokenConfig struct {
	Token  spec.Secret    `yaml:"token" doc:"The token, at least 16 characters."`
	SHA256 spec.Text      `yaml:"sha256" doc:"Instead of token: its SHA-256 hash in hexadecimal."`
	Claims map[string]any `yaml:"claims" required:"true" doc:"The claims of the caller."`
}

type issuerConfig struct {
	Issuer     spec.Text     `yaml:"issuer" required:"true" doc:"The required value of the iss claim."`
	Audience   spec.Text     `yaml:"audience" required:"true" doc:"The value that the aud claim must be or contain."`
	JWKS       spec.Text     `yaml:"jwks" required:"true" doc:"The URL or file of the issuer's JWK set."`
	Algorithms []spec.Text   `yaml:"algorithms" doc:"The allowed signature algorithms. Default: RS256, ES256 and EdDSA."`
	Leeway     spec.Duration `yaml:"leeway" default:"1m" doc:"The allowed clock difference."`
}

// Decode returns the Auth for a document, and reports all problems.
func Decode(n *spec.Node, opts *Options) (*Auth, spec.Diagnostics) {
	var c fileConfig
	a := newAuth(opts)
	ds := spec.Decode(n, &c)
	if len(c.Tokens)+len(c.JWT) == 0 && !ds.HasErrors() {
		ds = append(ds, n.Errorf("auth", "tokens or jwt is required: no caller could authenticate"))
	}
	claims := template.Env{"claims": map[string]any{}}
	withApp := template.Env{"claims": map[string]any{}, "app": ""}
	a.userID = compileExpr(&ds, c.UserID, claims, template.Compile)
	a.admin = compileExpr(&ds, c.Admin, claims, template.CompileBool)
	a.metrics = compileExpr(&ds, c.Metrics, claims, template.CompileBool)
	a.apps = compileExpr(&ds, c.Apps, withApp, template.CompileBool)
	for i := range c.Tokens {
		a.addToken(&ds, &c.Tokens[i], itemAt(n, "tokens", i))
	}
	for i := range c.JWT {
		a.addIssuer(&ds, &c.JWT[i])
	}
	ds.Sort()
	return a, ds
}

// itemAt returns a list item's node.
func itemAt(n *spec.Node, key string, i int) *spec.Node {
	if list := n.Get(key); list != nil && i < len(list.Items) {
		return list.Items[i]
	}
	return n
}

// SchemaIn returns the JSON Schema of the document, to embed in another one.
func SchemaIn(set *spec.SchemaSet) map[string]any {
	return set.Object(reflect.TypeFor[fileConfig]())
}

// Schema returns the JSON Schema of auth.yaml, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	return set.Document(SchemaIn(&set))
}

// Reference returns the reference page of auth.yaml.
func Reference() string {
	return spec.Reference("Authentication", "Authentication and authorization of callers.", reflect.TypeFor[fileConfig]())
}

func compileExpr(ds *spec.Diagnostics, e spec.Expr, env template.Env, compile func(string, template.Env) (*template.Expr, error)) *template.Expr {
	x, err := compile(e.Value, env)
	var te *template.Error
	if errors.As(err, &te) {
		*ds = append(*ds, e.Errorf(te.Offset, "expression", "%s", te.Msg))
	}
	return x
}

func (a *Auth) addToken(ds *spec.Diagnostics, c *tokenConfig, at *spec.Node) {
	token := c.Token.Reveal()
	sum := sha256.Sum256([]byte(token))
	switch {
	case (token == "") == (c.SHA256.Value == ""):
		*ds = append(*ds, at.Errorf("auth", "exactly one of token and sha256 is required"))
		return
	case token != "" && len(token) < minTokenBytes:
		*ds = append(*ds, c.Token.Errorf(0, "auth", "token must have at least %d characters", minTokenBytes))
		return
	case token == "":
		if n, err := hex.Decode(sum[:], []byte(c.SHA256.Value)); err != nil || n != len(sum) || len(c.SHA256.Value) != 2*len(sum) {
			*ds = append(*ds, c.SHA256.Errorf(0, "auth", "sha256 must have 64 hexadecimal digits"))
			return
		}
	}
	if _, twice := a.tokens[sum]; twice {
		*ds = append(*ds, at.Errorf("auth", "duplicate token"))
		return
	}
	a.tokens[sum] = c.Claims
}

func (a *Auth) addIssuer(ds *spec.Diagnostics, c *issuerConfig) {
	known := supportedAlgorithms()
	in := &issuer{name: c.Issuer.Value, audience: c.Audience.Value, leeway: time.Duration(c.Leeway)}
	for _, alg := range c.Algorithms {
		if !slices.Contains(known, jose.SignatureAlgorithm(alg.Value)) {
			names := strings.Trim(strings.ReplaceAll(fmt.Sprint(known), " ", ", "), "[]")
			*ds = append(*ds, alg.Errorf(0, "auth", "unknown algorithm %q, must be one of %s", alg.Value, names))
		}
		in.algorithms = append(in.algorithms, jose.SignatureAlgorithm(alg.Value))
	}
	if len(in.algorithms) == 0 {
		in.algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
	}
	url := c.JWKS.Value
	if strings.HasPrefix(url, "http://") && !isLoopbackURL(url) {
		*ds = append(*ds, c.JWKS.Errorf(0, "auth", "jwks must be an https URL, a file or a loopback address"))
	}
	if _, twice := a.issuers[in.name]; twice {
		*ds = append(*ds, c.Issuer.Errorf(0, "auth", "duplicate issuer"))
	}
	in.keys = newKeySet(url, a.opts)
	a.issuers[in.name] = in
}
