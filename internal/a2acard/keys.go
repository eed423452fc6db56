package a2acard

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/go-jose/go-jose/v4"
)

// algorithms are those that signatures may have.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.EdDSA, jose.RS256, jose.PS256}

// minRSA is the shortest RSA key in bits.
const minRSA = 2048

// NewSigner returns a signer with the private key in a PEM text: P-256, P-384, Ed25519 or RSA. The key's ID is its
// thumbprint (RFC 7638).
func NewSigner(text []byte) (*Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("expected a private key in PEM")
	}
	key, err := parsePrivate(block)
	if err != nil {
		return nil, err
	}
	algorithm, err := selectAlgorithm(key.Public())
	if err != nil {
		return nil, err
	}
	id, err := formatThumbprint(key.Public())
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, (&jose.SignerOptions{}).WithType("JOSE"))
	if err != nil {
		return nil, err
	}
	return &Signer{signer: signer, signed: map[[sha256.Size]byte][]a2a.AgentCardSignature{}}, nil
}

func parsePrivate(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("expected a private key in PEM, got %q", block.Type)
	}
	if err != nil {
		return nil, errors.New("the private key cannot be read") // the cause may have bytes of the key
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the private key must be P-256, P-384, Ed25519 or RSA, got %T", key)
	}
	return signer, nil
}

func selectAlgorithm(public any) (jose.SignatureAlgorithm, error) {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		}
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSA {
			return "", fmt.Errorf("the RSA key must have at least %d bits, got %d", minRSA, key.N.BitLen())
		}
		return jose.RS256, nil
	}
	return "", errors.New("the key must be P-256, P-384, Ed25519 or RSA")
}

func formatThumbprint(public any) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	return base64.RawURLEncoding.EncodeToString(sum), err
}

// maxKeys limits a file's keys.
const maxKeys = 16

// ParsePublicKeys returns the public keys in a PEM text, which has at least one.
func ParsePublicKeys(text []byte) ([]jose.JSONWebKey, error) {
	var all []jose.JSONWebKey
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("expected public keys in PEM, got %q", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the public key cannot be read: %w", err)
		}
		if _, err := selectAlgorithm(key); err != nil {
			return nil, err
		}
		if len(all) == maxKeys {
			return nil, fmt.Errorf("the public keys exceed the limit of %d", maxKeys)
		}
		all = append(all, jose.JSONWebKey{Key: key})
	}
	if all == nil {
		return nil, errors.New("expected public keys in PEM")
	}
	return all, nil
}
