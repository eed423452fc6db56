package connection

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"agenthost/pkg/connection"
)

// Keys encrypt what a [connection.GrantStore] stores, with AES-256-GCM. The first key encrypts, and
// all keys decrypt, so that a key can be replaced.
type Keys struct{ all []sealingKey }

type sealingKey struct {
	// id begins everything that the key has encrypted.
	id   []byte
	aead cipher.AEAD
}

const keyIDBytes = 4

// ParseKeys reads one key for each line: 32 bytes in base64. Its errors do not show keys.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{}
	for i, line := range strings.Fields(text) {
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(raw) != 32 {
			return nil, fmt.Errorf("key %d must be 32 bytes in base64, such as the output of: openssl rand -base64 32", i+1)
		}
		key, err := newSealingKey(raw)
		if err != nil {
			return nil, err
		}
		k.all = append(k.all, key)
	}
	if len(k.all) == 0 {
		return nil, errors.New("there is no key: write the output of: openssl rand -base64 32")
	}
	return k, nil
}

// NewRandomKeys returns a new key, for grants that end with the process.
func NewRandomKeys() (*Keys, error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	key, err := newSealingKey(raw)
	if err != nil {
		return nil, err
	}
	return &Keys{[]sealingKey{key}}, nil
}

func newSealingKey(raw []byte) (sealingKey, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return sealingKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	sum := sha256.Sum256(append([]byte("agenthost key id "), raw...))
	return sealingKey{sum[:keyIDBytes], aead}, err
}

// SealText encrypts a string that belongs to a row.
func (k *Keys) SealText(row *connection.Grant, text []byte) []byte {
	first := k.all[0]
	return first.aead.Seal(bytes.Clone(first.id), nil, text, additionalData(row))
}

// errSealed reports a row that no key decrypts.
var errSealed = errors.New("none of the credential keys decrypts it")

// OpenSealed decrypts a row's text.
func (k *Keys) OpenSealed(row *connection.Grant) ([]byte, error) {
	for _, key := range k.all {
		if sealed, ok := bytes.CutPrefix(row.Sealed, key.id); ok {
			if text, err := key.aead.Open(nil, nil, sealed, additionalData(row)); err == nil {
				return text, nil
			}
		}
	}
	return nil, errSealed
}

// additionalData binds the text to its row, so that it cannot be moved to another user.
func additionalData(g *connection.Grant) []byte {
	return fmt.Appendf(nil, "%q", []string{g.ID, g.User.App, g.User.UserID, g.Connection})
}
