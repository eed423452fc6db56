package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// supportedAlgorithms returns the asymmetric signature algorithms of RFC 7518 and
// RFC 8037. With symmetric ones, a party that can verify tokens can also sign them.
func supportedAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.PS256, jose.PS384, jose.PS512, jose.RS256, jose.RS384, jose.RS512,
	}
}

// parseJWT decodes a token in compact serialization (RFC 7515). Its signature is not
// verified yet.
func parseJWT(token string) (*jose.JSONWebSignature, error) {
	t, err := jose.ParseSignedCompact(token, supportedAlgorithms())
	var unexpected *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &unexpected):
		return nil, fmt.Errorf("algorithm %q not allowed", unexpected.Got)
	case err != nil:
		return nil, errors.New("token is not a JWT")
	}
	if crit := t.Signatures[0].Header.ExtraHeaders["crit"]; crit != nil {
		return nil, fmt.Errorf("unsupported critical header %v", crit)
	}
	return t, nil
}

// verifySignature verifies that the issuer signed the token.
func (in *issuer) verifySignature(ctx context.Context, t *jose.JSONWebSignature) error {
	header := t.Signatures[0].Header
	if !slices.Contains(in.algorithms, jose.SignatureAlgorithm(header.Algorithm)) {
		return fmt.Errorf("%w: algorithm %q not allowed", ErrUnauthenticated, header.Algorithm)
	}
	keys, err := in.keys.findKeys(ctx, header.KeyID)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if _, err := t.Verify(k.Key); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: signature verification failed", ErrUnauthenticated)
}
