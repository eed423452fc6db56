package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func encodeKey(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	failOn(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	failOn(t, err)
	return key
}

// signedRelease returns a release with checksums that the key signed, and the file of its public key.
func signedRelease(t *testing.T, key string) (*release, string) {
	t.Helper()
	r := &release{out: t.TempDir()}
	writeTestFile(t, filepath.Join(r.out, "checksums.txt"), "0123  agenthost.tar.gz\n")
	failOn(t, r.signChecksums(key))
	signer, err := readSigner(key)
	failOn(t, err)
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	public := filepath.Join(t.TempDir(), "public.pem")
	writeTestFile(t, public, encodeKey(t, "PUBLIC KEY", der, err))
	return r, public
}

// verifySignature runs the command of docs/deploying.md.
func verifySignature(t *testing.T, r *release, public string) error {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("SKIPPED: openssl is not installed")
	}
	cmd := exec.Command(program, "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", "checksums.txt", "-sigfile", "checksums.txt.sig")
	cmd.Dir = r.out
	return cmd.Run()
}

// OpenSSL verifies the signature of each kind of key, and rejects it for other checksums. Two
// signatures with one key are equal.
func TestSignChecksums(t *testing.T) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	failOn(t, err)
	p256 := newKey(t, elliptic.P256())
	for name, marshal := range map[string]func() (string, []byte, error){
		"Ed25519": func() (string, []byte, error) {
			der, err := x509.MarshalPKCS8PrivateKey(private)
			return "PRIVATE KEY", der, err
		},
		"P-256": func() (string, []byte, error) {
			der, err := x509.MarshalPKCS8PrivateKey(p256)
			return "PRIVATE KEY", der, err
		},
		"P-256 in SEC 1": func() (string, []byte, error) {
			der, err := x509.MarshalECPrivateKey(p256)
			return "EC PRIVATE KEY", der, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind, der, err := marshal()
			key := encodeKey(t, kind, der, err)
			r, public := signedRelease(t, key)
			file := filepath.Join(t.TempDir(), "key.pem")
			writeTestFile(t, file, "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"+key)
			again, _ := signedRelease(t, file)
			if readTestFile(t, filepath.Join(r.out, "checksums.txt.sig")) != readTestFile(t, filepath.Join(again.out, "checksums.txt.sig")) {
				t.Error("two signatures with one key differ")
			}
			if err := verifySignature(t, r, public); err != nil {
				t.Errorf("openssl rejects the signature: %v", err)
			}
			writeTestFile(t, filepath.Join(r.out, "checksums.txt"), "0124  agenthost.tar.gz\n")
			if verifySignature(t, r, public) == nil {
				t.Error("openssl accepts the signature of other checksums")
			}
		})
	}
}

// Without a key there is no signature, not even one of an earlier build.
func TestUnsignedRelease(t *testing.T) {
	r := release{out: t.TempDir()}
	signature := filepath.Join(r.out, "checksums.txt.sig")
	writeTestFile(t, signature, "old")
	for range 2 {
		failOn(t, r.signChecksums(""))
		if _, err := os.Stat(signature); err == nil {
			t.Error("the old signature is still there")
		}
	}
}

// Other keys are rejected with the reason, which does not contain the key.
func TestSigningKeyInvalid(t *testing.T) {
	marshal := func(key crypto.PrivateKey) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return encodeKey(t, "PRIVATE KEY", der, err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	failOn(t, err)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	writeTestFile(t, empty, "")
	for key, want := range map[string]string{
		"MC4CAQAwBQYDK2Vw":                  "reading DIST_KEY: neither PEM nor the name of a readable file: no such file or directory",
		empty:                               "reading DIST_KEY: no private key in PEM",
		marshal(large):                      "reading DIST_KEY: key must be Ed25519 or P-256, got *rsa.PrivateKey",
		marshal(newKey(t, elliptic.P384())): "reading DIST_KEY: key must be Ed25519 or P-256, got P-384",
		encodeKey(t, "ENCRYPTED PRIVATE KEY", []byte{0}, nil): `reading DIST_KEY: PEM type must be PRIVATE KEY or EC PRIVATE KEY, got "ENCRYPTED PRIVATE KEY"`,
		encodeKey(t, "PRIVATE KEY", []byte{0}, nil):           "reading DIST_KEY: asn1: ",
	} {
		r := release{out: t.TempDir()}
		if err := r.signChecksums(key); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
