package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the algorithms
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// A jwt is a decoded token (RFC 7515, compact serialization).
type jwt struct {
	header struct {
		Alg  string   `json:"alg"`
		Kid  string   `json:"kid"`
		Crit []string `json:"crit"`
	}
	payload, signature []byte
	// signedText is the text that the signature covers.
	signedText string
}

var errInvalidJWT = errors.New("token is not a JWT")

func parseJWT(token string) (*jwt, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errInvalidJWT
	}
	t := &jwt{signedText: token[:len(parts[0])+1+len(parts[1])]}
	var decoded [3][]byte
	for i, p := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(p); err != nil {
			return nil, errInvalidJWT
		}
	}
	if json.Unmarshal(decoded[0], &t.header) != nil {
		return nil, errInvalidJWT
	}
	t.payload, t.signature = decoded[1], decoded[2]
	if len(t.header.Crit) > 0 {
		return nil, fmt.Errorf("unsupported critical header %v", t.header.Crit)
	}
	return t, nil
}

// verifySignature verifies that the issuer signed the token.
func (in *issuer) verifySignature(ctx context.Context, t *jwt) error {
	if !slices.Contains(in.algorithms, t.header.Alg) {
		return fmt.Errorf("%w: algorithm %q not allowed", ErrUnauthenticated, t.header.Alg)
	}
	keys, err := in.keys.findKeys(ctx, t.header.Kid)
	if err != nil {
		return err
	}
	verify := supportedAlgorithms()[t.header.Alg]
	for _, k := range keys {
		if (k.alg == "" || k.alg == t.header.Alg) && verify(k.publicKey, []byte(t.signedText), t.signature) {
			return nil
		}
	}
	return fmt.Errorf("%w: signature verification failed", ErrUnauthenticated)
}

// A verifyFunc reports whether key signed the text. It returns false for keys of
// another type.
type verifyFunc func(key crypto.PublicKey, text, signature []byte) bool

// supportedAlgorithms returns the asymmetric algorithms of RFC 7518 and RFC 8037.
// With symmetric ones, a party that can verify tokens can also sign them.
func supportedAlgorithms() map[string]verifyFunc {
	return map[string]verifyFunc{
		"RS256": verifyPKCS1(crypto.SHA256), "RS384": verifyPKCS1(crypto.SHA384), "RS512": verifyPKCS1(crypto.SHA512),
		"PS256": verifyPSS(crypto.SHA256), "PS384": verifyPSS(crypto.SHA384), "PS512": verifyPSS(crypto.SHA512),
		"ES256": verifyECDSA("P-256", crypto.SHA256), "ES384": verifyECDSA("P-384", crypto.SHA384), "ES512": verifyECDSA("P-521", crypto.SHA512),
		"EdDSA": verifyEdDSA,
	}
}

func hashSum(h crypto.Hash, text []byte) []byte {
	d := h.New()
	d.Write(text)
	return d.Sum(nil)
}

func verifyPKCS1(h crypto.Hash) verifyFunc {
	return func(key crypto.PublicKey, text, signature []byte) bool {
		k, ok := key.(*rsa.PublicKey)
		return ok && rsa.VerifyPKCS1v15(k, h, hashSum(h, text), signature) == nil
	}
}

func verifyPSS(h crypto.Hash) verifyFunc {
	return func(key crypto.PublicKey, text, signature []byte) bool {
		k, ok := key.(*rsa.PublicKey)
		return ok && rsa.VerifyPSS(k, h, hashSum(h, text), signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
}

// verifyECDSA expects a signature of two integers, each as long as the curve's
// field.
func verifyECDSA(curve string, h crypto.Hash) verifyFunc {
	return func(key crypto.PublicKey, text, signature []byte) bool {
		k, ok := key.(*ecdsa.PublicKey)
		if !ok || k.Params().Name != curve {
			return false
		}
		size := (k.Params().BitSize + 7) / 8
		if len(signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
		return ecdsa.Verify(k, hashSum(h, text), r, s)
	}
}

func verifyEdDSA(key crypto.PublicKey, text, signature []byte) bool {
	k, ok := key.(ed25519.PublicKey)
	return ok && ed25519.Verify(k, text, signature)
}
