package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/spec"
)

var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// signer signs tokens with one key and returns its JWK.
type signer struct {
	alg string
	key crypto.Signer
}

func (s signer) sign(t *testing.T, header, claims map[string]any) string {
	t.Helper()
	h, c := map[string]any{"alg": s.alg, "kid": s.alg}, map[string]any{
		"iss": "https://id.example", "aud": "agenthost", "sub": "ana", "exp": now.Add(time.Hour).Unix(),
	}
	for k, v := range header {
		h[k] = v
	}
	for k, v := range claims {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	text := b64(marshal(t, h)) + "." + b64(marshal(t, c))
	return text + "." + b64(s.signature(t, text))
}

func (s signer) signature(t *testing.T, text string) []byte {
	t.Helper()
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[s.alg[2:]]
	var sum []byte
	if hash != 0 {
		digest := hash.New()
		digest.Write([]byte(text))
		sum = digest.Sum(nil)
	}
	switch k := s.key.(type) {
	case *ecdsa.PrivateKey:
		r, v, err := ecdsa.Sign(rand.Reader, k, sum)
		if err != nil {
			t.Fatal(err)
		}
		size := (k.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), v.FillBytes(make([]byte, size))...)
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(text))
	}
	var opts crypto.SignerOpts = hash
	if s.alg[0] == 'P' {
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	sig, err := s.key.Sign(rand.Reader, sum, opts)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

func (s signer) jwk() map[string]any {
	k := map[string]any{"kid": s.alg, "use": "sig"}
	switch p := s.key.Public().(type) {
	case *rsa.PublicKey:
		k["kty"], k["n"], k["e"] = "RSA", b64(p.N.Bytes()), b64(big.NewInt(int64(p.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			panic(err) // cannot happen: the key was just generated
		}
		half := len(point) / 2
		k["kty"], k["crv"], k["x"], k["y"] = "EC", p.Params().Name, b64(point[1:1+half]), b64(point[1+half:])
	case ed25519.PublicKey:
		k["kty"], k["crv"], k["x"] = "OKP", "Ed25519", b64(p)
	}
	return k
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newECDSAKey(t *testing.T, alg string, c elliptic.Curve) signer {
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{alg, k}
}

func signers(t *testing.T) map[string]signer {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]signer{"EdDSA": {"EdDSA", ed}}
	for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} {
		all[alg] = signer{alg, long}
	}
	all["ES256"], all["ES384"], all["ES512"] = newECDSAKey(t, "ES256", elliptic.P256()), newECDSAKey(t, "ES384", elliptic.P384()), newECDSAKey(t, "ES512", elliptic.P521())
	return all
}

func marshalKeySet(t *testing.T, all ...signer) []byte {
	t.Helper()
	var keys []any
	for _, s := range all {
		keys = append(keys, s.jwk())
	}
	return marshal(t, map[string]any{"keys": keys})
}

func decodeAuth(t *testing.T, clock func() time.Time, text string) *Auth {
	t.Helper()
	n, ds := spec.Parse("auth.yaml", []byte(text))
	a, more := Decode(n, &Options{Clock: clock})
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(a.Close)
	return a
}

func fixedClock() time.Time { return now }

// TestAlgorithmsOnlyWithOwnKey expects each configured algorithm to be accepted with its own key,
// and all others to be rejected.
func TestAlgorithmsOnlyWithOwnKey(t *testing.T) {
	all := signers(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	var list []signer
	for _, s := range all {
		list = append(list, s)
	}
	if err := os.WriteFile(file, marshalKeySet(t, list...), 0o600); err != nil {
		t.Fatal(err)
	}
	for alg, s := range all {
		doc := "jwt: [{issuer: https://id.example, audience: agenthost, jwks: %s, algorithms: [%s]}]"
		for other := range all {
			a := decodeAuth(t, fixedClock, fmt.Sprintf(doc, file, other))
			p, err := a.Authenticate(t.Context(), "Bearer "+s.sign(t, nil, nil))
			if good := err == nil && p.UserID == "ana"; good != (alg == other) {
				t.Errorf("a token of %s where %s is allowed: %v, %v", alg, other, p, err)
			}
		}
	}
}

// TestTokensRejectedWithReason covers each reason to reject a token, with its log message.
func TestTokensRejectedWithReason(t *testing.T) {
	all := signers(t)
	good, stranger := all["ES256"], newECDSAKey(t, "ES256", elliptic.P256())
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, marshalKeySet(t, good, all["RS256"], all["ES384"]), 0o600); err != nil {
		t.Fatal(err)
	}
	a := decodeAuth(t, fixedClock, fmt.Sprintf("jwt: [{issuer: https://id.example, audience: agenthost, jwks: %s}]", file))
	sign := good.sign
	claims := func(more map[string]any) string { return sign(t, nil, more) }
	parts := strings.Split(claims(nil), ".")
	shared := b64(marshal(t, map[string]any{"alg": "HS256", "kid": "RS256"})) + "." + parts[1]
	mac := hmac.New(sha256.New, marshal(t, all["RS256"].jwk()))
	mac.Write([]byte(shared))
	for _, tc := range []struct{ name, token, want string }{
		{"good", claims(nil), ""},
		{"no kid", sign(t, map[string]any{"kid": ""}, nil), ""},
		{"audience in a list", claims(map[string]any{"aud": []any{"x", "agenthost"}}), ""},
		{"clocks differ", claims(map[string]any{"exp": now.Add(-30 * time.Second).Unix(), "nbf": now.Add(30 * time.Second).Unix()}), ""},
		{"another audience", claims(map[string]any{"aud": "x"}), "audience x not accepted"},
		{"no audience", claims(map[string]any{"aud": nil}), "audience <nil> not accepted"},
		{"no exp", claims(map[string]any{"exp": nil}), "claim exp is required"},
		{"exp is a string", claims(map[string]any{"exp": "never"}), "claim exp is required"},
		{"expired", claims(map[string]any{"exp": now.Add(-time.Hour).Unix()}), "token expired"},
		{"not valid yet", claims(map[string]any{"nbf": now.Add(time.Hour).Unix()}), "token not valid yet (claim nbf)"},
		{"issued in the future", claims(map[string]any{"iat": now.Add(time.Hour).Unix()}), "token not valid yet (claim iat)"},
		{"another issuer", claims(map[string]any{"iss": "https://evil.example"}), `unknown issuer "https://evil.example"`},
		{"no issuer", claims(map[string]any{"iss": nil}), `unknown issuer ""`},
		{"no user", claims(map[string]any{"sub": nil}), "user_id must be a non-empty string"},
		{"the user is a number", claims(map[string]any{"sub": 7}), "user_id must be a non-empty string"},
		{"no signature", parts[0] + "." + parts[1] + ".", "signature verification failed"},
		{"alg none", b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".", `algorithm "none" not allowed`},
		{"signed with a public key", shared + "." + b64(mac.Sum(nil)), `algorithm "HS256" not allowed`},
		{"a stranger's key", stranger.sign(t, nil, nil), "signature verification failed"},
		{"an unknown kid", sign(t, map[string]any{"kid": "x"}, nil), "signature verification failed"},
		{"a key of another curve", sign(t, map[string]any{"kid": "ES384"}, nil), "signature verification failed"},
		{"other claims", parts[0] + "." + b64([]byte(`{"iss":"https://id.example","sub":"bob","aud":"agenthost","exp":9999999999}`)) + "." + parts[2], "signature verification failed"},
		{"crit", sign(t, map[string]any{"crit": []any{"b64"}}, nil), "unsupported critical header [b64]"},
		{"two parts", "a.b", "token is not a JWT"},
		{"no base64", "a!.b.c", "token is not a JWT"},
		{"padding", parts[0] + "=." + parts[1] + "." + parts[2], "token is not a JWT"},
		{"claims are a list", parts[0] + "." + b64([]byte("[]")) + "." + parts[2], "decoding claims:"},
		{"too long", strings.Repeat("a", maxTokenBytes+1), "no bearer token"},
		{"empty", "", "no bearer token"},
	} {
		_, err := a.Authenticate(t.Context(), "bearer "+tc.token)
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestKeySetRefresh: a token with an unknown key triggers a refresh, at most once in
// 10 seconds. If the issuer is down, known keys stay valid; if no key was ever
// fetched, the error is ErrUnavailable. Expired keys stay in use until the refresh
// succeeds.
func TestKeySetRefresh(t *testing.T) {
	first, second := newECDSAKey(t, "ES256", elliptic.P256()), signers(t)["EdDSA"]
	served, asked, down := marshalKeySet(t, first), 0, true
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write(served)
	}))
	defer issuer.Close()
	clock := now
	a := decodeAuth(t, func() time.Time { return clock }, fmt.Sprintf("jwt: [{issuer: https://id.example, audience: agenthost, jwks: %s}]", issuer.URL))
	try := func(s signer, want error, wantAsked int) {
		t.Helper()
		_, err := a.Authenticate(context.Background(), "Bearer "+s.sign(t, nil, map[string]any{"jti": asked}))
		a.issuers["https://id.example"].keys.fetches.Wait()
		if !errors.Is(err, want) || asked != wantAsked {
			t.Errorf("Authenticate() = %v after %d requests, want %v after %d", err, asked, want, wantAsked)
		}
	}
	try(first, ErrUnavailable, 1)
	try(first, ErrUnavailable, 1)
	clock, down = clock.Add(refreshInterval), false
	try(first, nil, 2)
	try(second, ErrUnauthenticated, 2)
	clock, served = clock.Add(refreshInterval), marshalKeySet(t, first, second)
	try(second, nil, 3)
	clock, down = clock.Add(keyTTL), true
	try(first, nil, 4)
	clock, down, served = clock.Add(refreshInterval), false, marshalKeySet(t, second)
	try(first, nil, 5)
	try(first, ErrUnauthenticated, 5)
}

// TestStaticTokens: a static token is configured in plain text or as its SHA-256, does not expire,
// and its claims determine the caller's permissions.
func TestStaticTokens(t *testing.T) {
	sum := sha256.Sum256([]byte("the-token-of-the-ops"))
	a := decodeAuth(t, fixedClock, fmt.Sprintf(`
tokens:
  - {token: the-token-of-ana, claims: {id: 7, apps: [hello]}}
  - {sha256: %x, claims: {id: 1, groups: [ops]}}
user_id: '"user-" + string(claims.id)'
admin: '"ops" in (claims.groups ?? [])'
apps: app in claims.apps
`, sum))
	for token, want := range map[string]string{
		"the-token-of-ana": "user-7 false true false", "the-token-of-the-ops": "user-1 true true true",
		"the-token-of-an": ErrUnauthenticated.Error(), fmt.Sprintf("%x", sum): ErrUnauthenticated.Error(),
	} {
		for range 2 {
			p, err := a.Authenticate(t.Context(), "Bearer "+token)
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(p.UserID, " ", p.Admin, " ", p.MayUse(t.Context(), "hello"), " ", p.MayUse(t.Context(), "other"))
			}
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", token, got, want)
			}
		}
	}
}

// TestInvalidDocuments covers a document's problems and their positions.
func TestInvalidDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                  "auth.yaml:1:1: tokens or jwt is required: no caller could authenticate [auth]",
		"tokens: [{token: aaaaaaaaaaaaaaaa}]": `auth.yaml:1:10: missing field "claims" [required]`,
		"tokens: [{token: short, claims: {sub: a}}]": "auth.yaml:1:18: token must have at least 16 characters [auth]",
		"tokens: [{claims: {sub: a}}]":               "auth.yaml:1:10: exactly one of token and sha256 is required [auth]",
		"tokens: [{sha256: abc, claims: {sub: a}}]":  "auth.yaml:1:19: sha256 must have 64 hexadecimal digits [auth]",
		"tokens: [{token: aaaaaaaaaaaaaaaa, claims: {sub: a}}, {token: aaaaaaaaaaaaaaaa, claims: {sub: b}}]": "auth.yaml:1:55: duplicate token [auth]",
		"jwt: [{issuer: i, audience: a, jwks: 'http://id.example/keys'}]":                                    "auth.yaml:1:39: jwks must be an https URL, a file or a loopback address [auth]",
		"jwt: [{issuer: i, audience: a, jwks: k, algorithms: [HS256]}]":                                      `auth.yaml:1:54: unknown algorithm "HS256", must be one of ES256, ES384, ES512, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512 [auth]`,
		"jwt: [{issuer: i, audience: a, jwks: k}, {issuer: i, audience: a, jwks: k}]":                        "auth.yaml:1:51: duplicate issuer [auth]",
		"jwt: [{issuer: i, audience: a, jwks: k}]\nuser_id: claim.sub":                                       "auth.yaml:2:10: unknown name claim; did you mean claims? [expression]",
		"jwt: [{issuer: i, audience: a, jwks: k}]\nadmin: '1'":                                               "auth.yaml:2:9:",
		"jwt: [{issuer: i, audience: a, jwks: k}]\nmetrics: '1'":                                             "auth.yaml:2:11:",
	} {
		n, ds := spec.Parse("auth.yaml", []byte(text))
		_, more := Decode(n, nil)
		if got := append(ds, more...).Strings(); len(got) != 1 || !strings.HasSuffix(got[0], want) && !strings.HasPrefix(got[0], want) {
			t.Errorf("%s\n%q, want %s", text, got, want)
		}
	}
}

// FuzzParseJWT expects either a token or an error, and no panic.
func FuzzParseJWT(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if parsed, err := parseJWT(token); (parsed == nil) == (err == nil) {
			t.Errorf("parseJWT(%q) = %v, %v", token, parsed, err)
		}
	})
}

// FuzzParseKeys expects either keys or an error, and no panic.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if keys, err := parseKeys(text); (len(keys) == 0) == (err == nil) {
			t.Errorf("parseKeys(%q) = %v, %v", text, keys, err)
		}
	})
}
