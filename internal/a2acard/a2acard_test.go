package a2acard_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"agenthost/internal/a2acard"
)

// card is one as a server with authentication sends it, with fields of 0.3.
const card = `{
  "name": "desk",
  "description": "Answers <questions> \u2028 about \"orders\".",
  "version": "1.0.0",
  "supportedInterfaces": [{"url": "https://example.com/a2a/desk", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
  "capabilities": {"streaming": true},
  "defaultInputModes": ["text/plain"],
  "defaultOutputModes": ["text/plain"],
  "skills": [{"id": "desk", "name": "desk", "description": "Answers.", "tags": ["agent"]}],
  "securitySchemes": {"bearer": {"type": "http", "httpAuthSecurityScheme": {"scheme": "Bearer"}}},
  "securityRequirements": [{"schemes": {"bearer": []}}],
  "url": "https://example.com/a2a/desk",
  "protocolVersion": "0.3"
}`

func encodePEM(t *testing.T, kind string, der []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// newPair returns a private and a public key in PEM.
func newPair(t *testing.T, key crypto.Signer) (private, public []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = encodePEM(t, "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	return private, encodePEM(t, "PUBLIC KEY", der, err)
}

func newECKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signCard(t *testing.T, private []byte) []byte {
	t.Helper()
	signer, err := a2acard.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.SignCard([]byte(card))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func parseKeys(t *testing.T, public []byte) []jose.JSONWebKey {
	t.Helper()
	keys, err := a2acard.ParsePublicKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// A card with a signature by a key of each kind is verified with its public key, and with no other one. Every
// change is found, and the headers have what the specification requires.
func TestVerifyCard(t *testing.T) {
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey := newPair(t, newECKey(t, elliptic.P256()))
	for algorithm, key := range map[string]crypto.Signer{"ES256": newECKey(t, elliptic.P256()), "ES384": newECKey(t, elliptic.P384()), "EdDSA": edKey, "RS256": rsaKey} {
		t.Run(algorithm, func(t *testing.T) {
			private, public := newPair(t, key)
			signed := signCard(t, private)
			var read struct {
				Signatures []struct{ Protected, Signature string } `json:"signatures"`
			}
			if err := json.Unmarshal(signed, &read); err != nil || len(read.Signatures) != 3 {
				t.Fatalf("the card: %v\n%s", err, signed)
			}
			header, err := base64.RawURLEncoding.DecodeString(read.Signatures[0].Protected)
			if text := string(header); err != nil || !strings.Contains(text, `"alg":"`+algorithm+`"`) || !strings.Contains(text, `"typ":"JOSE"`) || !strings.Contains(text, `"kid":"`) {
				t.Errorf("the header: %s, %v", header, err)
			}
			keys := parseKeys(t, append(otherKey, public...))
			if covered, err := a2acard.VerifyCard(signed, keys); err != nil || string(covered) != string(signed) {
				t.Errorf("the card: %v\n%s", err, covered)
			}
			if _, err := a2acard.VerifyCard(signed, parseKeys(t, otherKey)); err == nil || err.Error() != "agent card has no valid signature by the given keys" {
				t.Errorf("another key: %v", err)
			}
			for _, change := range [][2]string{
				{`"name": "desk",`, `"name": "dusk",`},
				{"https://example.com/a2a/desk\", \"protocolBinding\"", "https://example.org/a2a/desk\", \"protocolBinding\""},
				{`"streaming": true`, `"streaming": true, "pushNotifications": true`},
				{`"tags": ["agent"]`, `"tags": ["agent", "other"]`},
				{`"scheme": "Bearer"`, `"scheme": "Basic"`},
			} {
				changed := strings.Replace(string(signed), change[0], change[1], 1)
				if changed == string(signed) {
					t.Fatalf("%s is not on the card", change[0])
				}
				if _, err := a2acard.VerifyCard([]byte(changed), keys); err == nil {
					t.Errorf("%s is verified", change[1])
				}
			}
		})
	}
}

// A field that 1.0 does not define and that was changed is not part of the verified card.
func TestVerifyDefinedFields(t *testing.T) {
	private, public := newPair(t, newECKey(t, elliptic.P256()))
	changed := strings.Replace(string(signCard(t, private)), `"url": "https://example.com/a2a/desk",
  "protocolVersion"`, `"url": "https://example.org/evil",
  "protocolVersion"`, 1)
	covered, err := a2acard.VerifyCard([]byte(changed), parseKeys(t, public))
	if err != nil || strings.Contains(string(covered), "evil") || !strings.Contains(changed, "evil") {
		t.Errorf("verified: %s, %v", covered, err)
	}
	if !strings.Contains(string(covered), `"securityRequirements":[{"schemes":{"bearer":[]}}]`) {
		t.Errorf("a2a-go cannot read the scopes: %s", covered)
	}
}

// Cards that cannot be verified are errors.
func TestVerifyHostileCards(t *testing.T) {
	private, public := newPair(t, newECKey(t, elliptic.P256()))
	keys := parseKeys(t, public)
	entry := `{"protected":"eyJhbGciOiJub25lIn0","signature":""},`
	for text, want := range map[string]string{
		"[]":               "agent card is not a JSON object",
		"null":             "agent card is not a JSON object",
		card:               "agent card has no signature",
		`{"signatures":1}`: "agent card has no signature",
		`{"signatures":[` + strings.Repeat(entry, 16) + `{}]}`:                      "agent card exceeds the limit of 16 signatures",
		`{"name":1,"signatures":[` + strings.TrimSuffix(entry, ",") + `]}`:          "agent card has no valid signature by the given keys",
		`{"signatures":[{"protected":".","signature":"."},{"protected":"\u0000"}]}`: "agent card has no valid signature by the given keys",
		`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}":         "agent card exceeds the nesting limit of 100",
		`{"x":[` + strings.Repeat("0,", 30_000) + "0]}":                             "agent card exceeds the limit of 20000 values",
	} {
		if _, err := a2acard.VerifyCard([]byte(text), keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	signer, err := a2acard.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"[]": "agent card is not a JSON object", "null": "agent card is not a JSON object", `{"name":1}`: "agent card is not one of A2A 1.0"} {
		if _, err := signer.SignCard([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("signing %s: %v, want %s", text, err, want)
		}
	}
}

// Keys that cannot be used are errors, which do not have the key.
func TestKeyProblems(t *testing.T) {
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	shortPrivate, shortPublic := newPair(t, short)
	p521Private, p521Public := newPair(t, newECKey(t, elliptic.P521()))
	_, public := newPair(t, newECKey(t, elliptic.P256()))
	for _, tt := range []struct {
		text []byte
		want string
	}{
		{nil, "expected a private key in PEM"},
		{[]byte("secret"), "expected a private key in PEM"},
		{public, `expected a private key in PEM, got "PUBLIC KEY"`},
		{pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}), "the private key cannot be read"},
		{pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("secret")}), "the private key cannot be read"},
		{pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte("secret")}), "the private key cannot be read"},
		{shortPrivate, "the RSA key must have at least 2048 bits, got 1024"},
		{p521Private, "the key must be P-256, P-384, Ed25519 or RSA"},
	} {
		if _, err := a2acard.NewSigner(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("a private key: %v, want %s", err, tt.want)
		}
	}
	for _, tt := range []struct {
		text []byte
		want string
	}{
		{nil, "expected public keys in PEM"},
		{shortPrivate, `expected public keys in PEM, got "PRIVATE KEY"`},
		{pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), "the public key cannot be read"},
		{shortPublic, "the RSA key must have at least 2048 bits, got 1024"},
		{p521Public, "the key must be P-256, P-384, Ed25519 or RSA"},
		{[]byte(strings.Repeat(string(public), 17)), "the public keys exceed the limit of 16"},
	} {
		if _, err := a2acard.ParsePublicKeys(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("public keys: %v, want %s", err, tt.want)
		}
	}
}
