package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installerCase is a signed release of a program that is not a program, and a prefix to install to.
type installerCase struct {
	t        *testing.T
	r        *release
	key, bin string
	prefix   string
	env      []string
}

func newInstallerCase(t *testing.T) *installerCase {
	t.Helper()
	r := newRelease(t)
	b := fakeBuilds(t, 0)[0]
	archive, err := r.packArchive(b.name, append([]string{b.binary}, included...), b.goos)
	failOn(t, err)
	script, err := r.writeInstaller()
	failOn(t, err)
	_, err = r.writeChecksums([]string{archive, script})
	failOn(t, err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	failOn(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	failOn(t, r.signChecksums(encodeKey(t, "PRIVATE KEY", der, err)))
	der, err = x509.MarshalPKIXPublicKey(public)
	c := &installerCase{t: t, r: r, key: filepath.Join(t.TempDir(), "public.pem"), prefix: filepath.Join(t.TempDir(), "a folder"), bin: t.TempDir()}
	writeTestFile(t, c.key, encodeKey(t, "PUBLIC KEY", der, err))
	c.setMachine("Linux", "x86_64")
	return c
}

// setMachine sets the machine that the script reads from uname.
func (c *installerCase) setMachine(system, processor string) {
	c.t.Helper()
	uname := filepath.Join(c.bin, "uname")
	writeTestFile(c.t, uname, "#!/bin/sh\ncase $1 in -s) echo "+system+" ;; -m) echo "+processor+" ;; esac\n")
	failOn(c.t, os.Chmod(uname, 0o755))
}

// install runs the script with arguments and returns its output and exit code.
func (c *installerCase) install(args ...string) (string, int) {
	c.t.Helper()
	cmd := exec.Command("sh", append([]string{filepath.Join(c.r.out, "install.sh")}, args...)...)
	cmd.Env = append([]string{"PATH=" + c.bin + ":/usr/bin:/bin"}, c.env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return strings.ReplaceAll(string(out), c.r.out, "DIST"), cmd.ProcessState.ExitCode()
}

func (c *installerCase) expectInstalled(args ...string) {
	c.t.Helper()
	out, code := c.install(append(args, "--prefix", c.prefix)...)
	if code != 0 || out != "installed agenthost 0.1.0 as "+c.prefix+"/bin/agenthost\n" {
		c.t.Fatalf("exit code %d: %s", code, out)
	}
	program := filepath.Join(c.prefix, "bin/agenthost")
	info, err := os.Stat(program)
	failOn(c.t, err)
	if got := readTestFile(c.t, program); info.Mode() != 0o755 || got != "program for amd64" {
		c.t.Errorf("installed %q with mode %o", got, info.Mode())
	}
}

// The script installs from its own folder, again over an older version, and with the signature
// verified.
func TestInstaller(t *testing.T) {
	c := newInstallerCase(t)
	c.expectInstalled()
	writeTestFile(t, filepath.Join(c.prefix, "bin/agenthost"), "older")
	c.expectInstalled("--key", c.key)
	if files, err := filepath.Glob(filepath.Join(c.prefix, "*/*/*/*")); err != nil || len(files) != len(included) {
		t.Errorf("the documents are %q", files)
	}
	if files, err := os.ReadDir(filepath.Join(c.prefix, "bin")); err != nil || len(files) != 1 {
		t.Errorf("bin has %v", files)
	}
}

// The script downloads from an HTTPS address whose certificate is valid, and from no other address.
func TestInstallerDownload(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("SKIPPED: curl is not installed")
	}
	c := newInstallerCase(t)
	server := httptest.NewTLSServer(http.FileServer(http.Dir(c.r.out)))
	t.Cleanup(server.Close)
	out, code := c.install("--prefix", c.prefix, "--from", server.URL)
	if code != 1 || !strings.Contains(out, "cannot download "+server.URL+"/checksums.txt") {
		t.Errorf("an unknown certificate: exit code %d: %s", code, out)
	}
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	writeTestFile(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	c.env = append(c.env, "CURL_CA_BUNDLE="+certificate)
	c.expectInstalled("--from", server.URL, "--key", c.key)
}

// The script rejects wrong arguments, machines without an archive, and files that do not match the
// checksums or the signature. It then installs nothing.
func TestInstallerErrors(t *testing.T) {
	const usage = "; usage: install.sh --prefix DIR [--from DIR|URL] [--key FILE]\n"
	for name, test := range map[string]struct {
		change func(c *installerCase)
		args   []string
		code   int
		want   string
	}{
		"no prefix":       {args: []string{}, code: 2, want: `--prefix is required, such as --prefix "$HOME/.local"` + usage},
		"no value":        {args: []string{"--prefix"}, code: 2, want: "--prefix requires a value" + usage},
		"unknown":         {args: []string{"--force"}, code: 2, want: `unknown argument "--force"` + usage},
		"plain HTTP":      {args: []string{"--prefix", "PREFIX", "--from", "http://example.com"}, code: 2, want: `--from must be a folder or an https:// address, got "http://example.com"` + "\n"},
		"other folder":    {args: []string{"--prefix", "PREFIX", "--from", "/none"}, code: 1, want: "/none/checksums.txt not found\n"},
		"other system":    {change: func(c *installerCase) { c.setMachine("FreeBSD", "amd64") }, code: 1, want: "no archive for the system FreeBSD; on Windows, unpack the .zip\n"},
		"other processor": {change: func(c *installerCase) { c.setMachine("Linux", "riscv64") }, code: 1, want: "no archive for the processor riscv64\n"},
		"other platform":  {change: func(c *installerCase) { c.setMachine("Darwin", "arm64") }, code: 1, want: "checksums.txt does not list agenthost_0.1.0_darwin_arm64.tar.gz\n"},
		"damaged archive": {change: func(c *installerCase) { c.appendTo("agenthost_0.1.0_linux_amd64.tar.gz") }, code: 1, want: "the SHA-256 of agenthost_0.1.0_linux_amd64.tar.gz is "},
		"no archive":      {change: func(c *installerCase) { c.removeFile("agenthost_0.1.0_linux_amd64.tar.gz") }, code: 1, want: "DIST/agenthost_0.1.0_linux_amd64.tar.gz not found\n"},
		"no signature":    {change: func(c *installerCase) { c.removeFile("checksums.txt.sig") }, args: []string{"--prefix", "PREFIX", "--key", "KEY"}, code: 1, want: "DIST/checksums.txt.sig not found\n"},
		"other checksums": {change: func(c *installerCase) { c.appendTo("checksums.txt") }, args: []string{"--prefix", "PREFIX", "--key", "KEY"}, code: 1, want: "checksums.txt is not signed by the key KEY\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newInstallerCase(t)
			if test.change != nil {
				test.change(c)
			}
			if test.args == nil {
				test.args = []string{"--prefix", "PREFIX"}
			}
			var args []string
			for _, arg := range test.args {
				args = append(args, strings.NewReplacer("PREFIX", c.prefix, "KEY", c.key).Replace(arg))
			}
			out, code := c.install(args...)
			out = strings.ReplaceAll(out, c.key, "KEY")
			if code != test.code || !strings.HasPrefix(out, "install.sh: "+test.want) {
				t.Errorf("exit code %d: %s, want %d: %s", code, out, test.code, test.want)
			}
			if _, err := os.Stat(c.prefix); err == nil {
				t.Error("the prefix exists")
			}
		})
	}
}

func (c *installerCase) appendTo(file string) {
	path := filepath.Join(c.r.out, file)
	writeTestFile(c.t, path, readTestFile(c.t, path)+"\n")
}

func (c *installerCase) removeFile(file string) { failOn(c.t, os.Remove(filepath.Join(c.r.out, file))) }

// Without checksums.txt next to it, and without an address of the release, the script needs one.
func TestInstallerAlone(t *testing.T) {
	c := newInstallerCase(t)
	c.r.source = ""
	_, err := c.r.writeInstaller()
	failOn(t, err)
	c.removeFile("checksums.txt")
	if out, code := c.install("--prefix", c.prefix); code != 2 || out != "install.sh: --from is required: DIST has no checksums.txt\n" {
		t.Errorf("exit code %d: %s", code, out)
	}
}
