package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// signChecksums writes checksums.txt.sig with a private key: PEM, or the name of a file with PEM. The
// key is Ed25519 or ECDSA P-256 with SHA-256. Both signatures are deterministic, so that two builds
// with one key are equal. Without a key it reports that the files are not signed.
func (r *release) signChecksums(key string) error {
	const file = "checksums.txt"
	signature := filepath.Join(r.out, file+".sig")
	if key == "" {
		fmt.Fprintln(os.Stderr, "release: the files are not signed; hint: set DIST_KEY to a private key")
		return removeIfExists(signature) // of an earlier build
	}
	signer, err := readSigner(key)
	if err != nil {
		return fmt.Errorf("reading DIST_KEY: %w", err)
	}
	message, err := os.ReadFile(filepath.Join(r.out, file))
	if err != nil {
		return err
	}
	var hash crypto.Hash // Ed25519 signs the message itself
	if _, ok := signer.(*ecdsa.PrivateKey); ok {
		sum := sha256.Sum256(message)
		message, hash = sum[:], crypto.SHA256
	}
	signed, err := signer.Sign(nil, message, hash) // no random source: ECDSA is deterministic, as in RFC 6979
	if err != nil {
		return fmt.Errorf("signing %s: %w", file, err)
	}
	return os.WriteFile(signature, signed, 0o644)
}

func removeIfExists(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readSigner parses a key in PKCS #8, or in SEC 1 as older OpenSSL commands write it.
func readSigner(key string) (crypto.Signer, error) {
	text := []byte(key)
	if !strings.Contains(key, "-----BEGIN ") {
		b, err := os.ReadFile(key)
		if err != nil {
			// Its message has no value: it may be a damaged key.
			if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
				err = pathErr.Err
			}
			return nil, fmt.Errorf("neither PEM nor the name of a readable file: %w", err)
		}
		text = b
	}
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("no private key in PEM")
		}
		text = rest
		switch block.Type {
		case "EC PARAMETERS": // precedes a key
		case "EC PRIVATE KEY":
			return checkSigner(x509.ParseECPrivateKey(block.Bytes))
		case "PRIVATE KEY":
			return checkSigner(x509.ParsePKCS8PrivateKey(block.Bytes))
		default:
			return nil, fmt.Errorf("PEM type must be PRIVATE KEY or EC PRIVATE KEY, got %q", block.Type)
		}
	}
}

// checkSigner accepts the kinds of keys that release files are signed with.
func checkSigner(key any, err error) (crypto.Signer, error) {
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return key, nil
		}
		return nil, fmt.Errorf("key must be Ed25519 or P-256, got %s", key.Curve.Params().Name)
	}
	return nil, fmt.Errorf("key must be Ed25519 or P-256, got %T", key)
}
