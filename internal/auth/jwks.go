package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"agenthost/internal/limit"
)

func (ks *keySet) loadKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
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
	return limit.KeySet.ReadAll(resp.Body)
}

// parseKeys decodes a JWK set (RFC 7517) and returns its public keys for signatures. It
// skips all others, as the RFC demands.
func parseKeys(text []byte) ([]jose.JSONWebKey, error) {
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("invalid JWK set: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil {
			continue
		}
		if k = k.Public(); verifiesSignatures(&k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no usable key, must be RSA, EC or OKP with Ed25519")
	}
	return keys, nil
}

// RSA keys outside these limits are too weak, or too slow to verify.
const minRSABits, maxRSABits = 2048, 16 * 1024

func verifiesSignatures(k *jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" {
		return false
	}
	switch public := k.Key.(type) {
	case *rsa.PublicKey:
		bits := public.N.BitLen()
		return bits >= minRSABits && bits <= maxRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

func isLoopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}
