package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// maxKeySetBytes limits the size of a JWK set.
const maxKeySetBytes = 1 << 20

// A key is a public key that verifies signatures of the issuer.
type key struct {
	id, alg   string // alg is empty for any suitable algorithm
	publicKey crypto.PublicKey
}

func (ks *keySet) fetchKeys(ctx context.Context) ([]key, error) {
	text, err := ks.readText(ctx)
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}

func (ks *keySet) readText(ctx context.Context) ([]byte, error) {
	if !strings.Contains(ks.location, "://") {
		return os.ReadFile(ks.location)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ks.location, nil)
	if err != nil {
		return nil, err
	}
	resp, err := ks.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySetBytes+1))
	if len(text) > maxKeySetBytes {
		return nil, fmt.Errorf("more than %d bytes", maxKeySetBytes)
	}
	return text, err
}

// jwk is a JSON Web Key (RFC 7517) with the fields for verification.
type jwk struct {
	Kty, Use, Kid, Alg, Crv string
	N, E, X, Y              string
}

// parseKeys decodes a JWK set. It skips keys of other kinds or uses.
func parseKeys(text []byte) ([]key, error) {
	var set struct{ Keys []jwk }
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("invalid JWK set: %w", err)
	}
	var keys []key
	for _, j := range set.Keys {
		if j.Use != "" && j.Use != "sig" {
			continue
		}
		if public := j.publicKey(); public != nil {
			keys = append(keys, key{j.Kid, j.Alg, public})
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no usable key, must be RSA, EC or OKP with Ed25519")
	}
	return keys, nil
}

// minRSABits is the minimum length of an RSA key.
const minRSABits = 2048

func (j *jwk) publicKey() crypto.PublicKey {
	switch j.Kty {
	case "RSA":
		n, e := decodeBigInt(j.N), decodeBigInt(j.E)
		if n.BitLen() < minRSABits || n.BitLen() > 16*1024 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return nil
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[j.Crv]
		if curve == nil {
			return nil
		}
		return ecdsaKey(curve, decodeBigInt(j.X), decodeBigInt(j.Y))
	case "OKP":
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		if j.Crv != "Ed25519" || err != nil || len(x) != ed25519.PublicKeySize {
			return nil
		}
		return ed25519.PublicKey(x)
	}
	return nil
}

// ecdsaKey returns nil if the point is not on the curve.
func ecdsaKey(curve elliptic.Curve, x, y *big.Int) crypto.PublicKey {
	size := (curve.Params().BitSize + 7) / 8
	if max(x.BitLen(), y.BitLen()) > 8*size {
		return nil
	}
	point := append([]byte{4}, x.FillBytes(make([]byte, size))...)
	k, err := ecdsa.ParseUncompressedPublicKey(curve, append(point, y.FillBytes(make([]byte, size))...))
	if err != nil {
		return nil
	}
	return k
}

func decodeBigInt(text string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(b)
}

func isLoopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}
