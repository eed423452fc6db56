package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// minTokenBytes is the length below which a static token can be guessed.
const minTokenBytes = 16

type fileConfig struct {
	Tokens []tokenConfig  `yaml:"tokens" doc:"Callers that have a token of their own."`
	JWT    []issuerConfig `yaml:"jwt" doc:"Those whose tokens are believed because they signed them."`
	UserID spec.Expr      `yaml:"user_id" default:"claims.sub" doc:"The id of the user; it sees claims."`
	Admin  spec.Expr      `yaml:"admin" default:"false" doc:"Whether the caller may name any user, and see what is the host's: it sees claims."`
	Apps   spec.Expr      `yaml:"apps" default:"true" doc:"Whether the caller may use an app; it sees claims and app."`
}

type tokenConfig struct {
	Token  spec.Secret    `yaml:"token" doc:"The token, of at least 16 letters."`
	SHA256 spec.Text      `yaml:"sha256" doc:"In its place the SHA-256 of the token, in hexadecimal digits."`
	Claims map[string]any `yaml:"claims" required:"true" doc:"What is known of the caller."`
}

type issuerConfig struct {
	Issuer     spec.Text     `yaml:"issuer" required:"true" doc:"What the claim iss has to be."`
	Audience   spec.Text     `yaml:"audience" required:"true" doc:"What the claim aud has to be, or to hold."`
	JWKS       spec.Text     `yaml:"jwks" required:"true" doc:"Its keys: the URL or the file of a JWK set."`
	Algorithms []spec.Text   `yaml:"algorithms" doc:"Those that are believed; without it RS256, ES256 and EdDSA."`
	Leeway     spec.Duration `yaml:"leeway" default:"1m" doc:"How far clocks may differ."`
}

// Decode makes an Auth of a document, and reports every problem.
func Decode(n *spec.Node, opts *Options) (*Auth, spec.Diagnostics) {
	var c fileConfig
	a := newAuth(opts)
	ds := spec.Decode(n, &c)
	if len(c.Tokens)+len(c.JWT) == 0 && !ds.HasErrors() {
		ds = append(ds, n.Errorf("auth", "nobody could get in: there are neither tokens nor jwt"))
	}
	claims := template.Env{"claims": map[string]any{}}
	withApp := template.Env{"claims": map[string]any{}, "app": ""}
	a.userID = compileExpr(&ds, c.UserID, claims, template.Compile)
	a.admin = compileExpr(&ds, c.Admin, claims, template.CompileBool)
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

// itemAt is where an entry of a list stands.
func itemAt(n *spec.Node, key string, i int) *spec.Node {
	if list := n.Get(key); list != nil && i < len(list.Items) {
		return list.Items[i]
	}
	return n
}

// SchemaIn is the JSON Schema of the document, for one that holds it.
func SchemaIn(set *spec.SchemaSet) map[string]any {
	return set.Object(reflect.TypeFor[fileConfig]())
}

// Schema is the JSON Schema of auth.yaml, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	return set.Document(SchemaIn(&set))
}

// Reference is the page of the fields of auth.yaml.
func Reference() string {
	return spec.Reference("Callers", "Who may call the host, and what is known of them.", reflect.TypeFor[fileConfig]())
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
		*ds = append(*ds, at.Errorf("auth", "write either token or sha256, and not an empty one"))
		return
	case token != "" && len(token) < minTokenBytes:
		*ds = append(*ds, c.Token.Errorf(0, "auth", "a token of less than %d letters can be guessed", minTokenBytes))
		return
	case token == "":
		if n, err := hex.Decode(sum[:], []byte(c.SHA256.Value)); err != nil || n != len(sum) || len(c.SHA256.Value) != 2*len(sum) {
			*ds = append(*ds, c.SHA256.Errorf(0, "auth", "a SHA-256 has 64 hexadecimal digits"))
			return
		}
	}
	if _, twice := a.tokens[sum]; twice {
		*ds = append(*ds, at.Errorf("auth", "this token stands here twice"))
		return
	}
	a.tokens[sum] = c.Claims
}

func (a *Auth) addIssuer(ds *spec.Diagnostics, c *issuerConfig) {
	known := slices.Sorted(maps.Keys(supportedAlgorithms()))
	in := &issuer{name: c.Issuer.Value, audience: c.Audience.Value, leeway: time.Duration(c.Leeway)}
	for _, alg := range c.Algorithms {
		if !slices.Contains(known, alg.Value) {
			*ds = append(*ds, alg.Errorf(0, "auth", "%q is none of %s", alg.Value, strings.Join(known, ", ")))
		}
		in.algorithms = append(in.algorithms, alg.Value)
	}
	if len(in.algorithms) == 0 {
		in.algorithms = []string{"RS256", "ES256", "EdDSA"}
	}
	url := c.JWKS.Value
	if strings.HasPrefix(url, "http://") && !isLoopbackURL(url) {
		*ds = append(*ds, c.JWKS.Errorf(0, "auth", "keys that come over http can be anybody's: write https"))
	}
	if _, twice := a.issuers[in.name]; twice {
		*ds = append(*ds, c.Issuer.Errorf(0, "auth", "this issuer stands here twice"))
	}
	in.keys = newKeySet(url, a.opts)
	a.issuers[in.name] = in
}
