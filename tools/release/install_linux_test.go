package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sassoftware/go-rpmutils"
)

// dynamicUser is a user as systemd allocates it for DynamicUser.
const dynamicUser = 61234

// answerLimit is the longest time from a release file to an answering agent.
const answerLimit = time.Minute

// Each release file, installed in an empty root without Go, serves an agent that answers within a
// minute. The program runs in the root as the package's unit or the image runs it, with its user.
func TestInstalledReleases(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: chroot requires root; hint: sudo make dist-test")
	}
	dist := t.TempDir()
	t.Chdir("../..")
	t.Setenv("DIST_KEY", "")
	failOn(t, buildRelease([]string{"-out", dist, "-version", "v0.1.0", "-platforms", "linux/" + runtime.GOARCH, "-source", "https://example.com/agenthost"}))
	name := "agenthost_0.1.0_linux_" + runtime.GOARCH
	file := filepath.Join(dist, name)
	for _, listed := range []string{name + ".tar.gz", name + ".cdx.json", name + ".deb", name + ".rpm", "agenthost_0.1.0_oci.tar", "agenthost.rb", "install.sh"} {
		if sums := readTestFile(t, filepath.Join(dist, "checksums.txt")); !strings.Contains(sums, "  "+listed+"\n") {
			t.Errorf("checksums.txt does not list %s", listed)
		}
	}
	runTool(t, "sh", "-c", "cd "+dist+" && sha256sum --check --strict checksums.txt")
	t.Run("deb", func(t *testing.T) { testDeb(t, file+".deb") })
	t.Run("rpm", func(t *testing.T) { testRPM(t, file+".rpm") })
	t.Run("script", func(t *testing.T) { testScript(t, filepath.Join(dist, "install.sh")) })
	t.Run("image", func(t *testing.T) { testImage(t, filepath.Join(dist, "agenthost_0.1.0_oci.tar")) })
}

// dpkg installs the package, keeps its configuration at removal, and deletes it at a purge.
func testDeb(t *testing.T, file string) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("SKIPPED: dpkg is not installed")
	}
	start, root := time.Now(), t.TempDir()
	for _, name := range []string{"info/format", "updates/.new", "status", "available"} {
		writeTestFile(t, filepath.Join(root, "var/lib/dpkg", name), map[string]string{"info/format": "1\n"}[name])
	}
	failOn(t, os.Remove(filepath.Join(root, "var/lib/dpkg/updates/.new")))
	dpkg := func(args ...string) {
		t.Helper()
		runTool(t, "dpkg", slices.Concat([]string{"--root=" + root, "--force-script-chrootless", "--log=/dev/null"}, args)...)
	}
	dpkg("--install", file)
	testUnit(t, root, start)
	config := filepath.Join(root, "etc/agenthost/host.yaml")
	dpkg("--remove", "agenthost")
	if _, err := os.Stat(config); err != nil {
		t.Errorf("removal deletes the configuration: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/agenthost")); err == nil {
		t.Error("removal keeps the program")
	}
	dpkg("--purge", "agenthost")
	if _, err := os.Stat(config); err == nil {
		t.Error("a purge keeps the configuration")
	}
}

// rpm installs the package. Where it is missing, the files are unpacked instead.
func testRPM(t *testing.T, file string) {
	start, root := time.Now(), t.TempDir()
	if _, err := exec.LookPath("rpm"); err == nil {
		rpm := []string{"--root", root, "--dbpath", "/var/lib/rpm"}
		runTool(t, "rpm", slices.Concat(rpm, []string{"--initdb"})...)
		// The scripts need a shell, which this root lacks.
		runTool(t, "rpm", slices.Concat(rpm, []string{"--install", "--nodeps", "--noscripts", file})...)
		runTool(t, "rpm", slices.Concat(rpm, []string{"--verify", "--nodeps", "--noscripts", "agenthost"})...)
	} else {
		t.Log("rpm is not installed: its files are unpacked")
		f, err := os.Open(file)
		failOn(t, err)
		defer f.Close()
		rpm, err := rpmutils.ReadRpm(f)
		failOn(t, err)
		failOn(t, rpm.ExpandPayload(root))
		files, err := rpm.Header.GetFiles()
		failOn(t, err)
		for _, f := range files {
			failOn(t, os.Chmod(filepath.Join(root, f.Name()), os.FileMode(f.Mode()).Perm()))
		}
	}
	testUnit(t, root, start)
}

// The script installs the archive below a prefix; the program needs no other file.
func testScript(t *testing.T, file string) {
	start, root := time.Now(), t.TempDir()
	runTool(t, "sh", file, "--prefix", filepath.Join(root, "usr/local"))
	failOn(t, os.Mkdir(filepath.Join(root, "data"), 0o700))
	failOn(t, os.Chown(filepath.Join(root, "data"), dynamicUser, dynamicUser))
	h := host{root: root, dir: "/data", user: &syscall.Credential{Uid: dynamicUser, Gid: dynamicUser}}
	h.createApp(t, "/usr/local/bin/agenthost", "/apps/hello")
	h.expectAnswer(t, start, "/usr/local/bin/agenthost", "serve", "/apps", "--addr", "127.0.0.1:0", "--session-db", "sqlite:////data/agenthost.db")
}

// testUnit starts the program as the installed unit does, on a free port, and expects an answer.
func testUnit(t *testing.T, root string, start time.Time) {
	unit := map[string]string{}
	for line := range strings.Lines(readTestFile(t, filepath.Join(root, "usr/lib/systemd/system/agenthost.service"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		unit[key] = value
	}
	if unit["DynamicUser"] != "yes" {
		t.Fatalf("the unit has the user %q: the packages must create it", unit["User"])
	}
	state := filepath.Join(root, "var/lib", unit["StateDirectory"])
	failOn(t, os.MkdirAll(filepath.Dir(state), 0o755))
	failOn(t, os.Mkdir(state, 0o700))
	failOn(t, os.Chown(state, dynamicUser, dynamicUser))
	h := host{root: root, dir: unit["WorkingDirectory"], user: &syscall.Credential{Uid: dynamicUser, Gid: dynamicUser}}
	h.createApp(t, "/usr/bin/agenthost", "/etc/agenthost/apps/hello")
	h.expectAnswer(t, start, append(strings.Fields(unit["ExecStart"]), "--addr", "127.0.0.1:0")...)
}

// The image's file system and configuration are enough to serve the apps in /apps.
func testImage(t *testing.T, file string) {
	start, root := time.Now(), t.TempDir()
	image := platformImage(t, readImage(t, file), runtime.GOARCH)
	layers, err := image.Layers()
	failOn(t, err)
	for _, layer := range layers {
		r, err := layer.Uncompressed()
		failOn(t, err)
		unpackTar(t, r, root)
		failOn(t, r.Close())
	}
	config, err := image.ConfigFile()
	failOn(t, err)
	h := host{root: root, dir: "/", user: &syscall.Credential{Uid: nonroot, Gid: nonroot}, env: config.Config.Env}
	h.createApp(t, "/agenthost", "/apps/hello")
	h.env = append(h.env, "AGENTHOST_ADDR=0.0.0.0:0", "AGENTHOST_INSECURE=true")
	h.expectAnswer(t, start, slices.Concat(config.Config.Entrypoint, config.Config.Cmd)...)
}

// runTool runs a program of this machine, without Go in its PATH.
func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	failOn(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + t.TempDir(), "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// host is a program in a root of its own.
type host struct {
	root, dir string
	user      *syscall.Credential
	env       []string
}

func (h host) newCommand(user *syscall.Credential, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = h.dir, append([]string{"PATH=/usr/bin:/bin"}, h.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: h.root, Credential: user}
	return cmd
}

// createApp creates an app that answers from a script, as the administrator.
func (h host) createApp(t *testing.T, program, dir string) {
	t.Helper()
	if out, err := h.newCommand(nil, program, "new", dir).CombinedOutput(); err != nil {
		t.Fatalf("%s new: %v\n%s", program, err, out)
	}
}

// expectAnswer starts the host, sends one message to its app and stops the host. It prints the time
// since start.
func (h host) expectAnswer(t *testing.T, start time.Time, args ...string) {
	t.Helper()
	cmd := h.newCommand(h.user, args...)
	out, err := cmd.StdoutPipe()
	failOn(t, err)
	var log strings.Builder
	cmd.Stderr = &log
	failOn(t, cmd.Start())
	timer := time.AfterFunc(answerLimit, func() { _ = cmd.Process.Kill() }) // then the requests fail
	stopped := false
	defer func() {
		timer.Stop()
		if !stopped {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Logf("log of %q:\n%s", args, log.String())
		}
	}()
	lines := bufio.NewReader(out)
	greeting, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%q does not serve: %v", args, err)
	}
	port := strings.TrimSpace(greeting[strings.LastIndexByte(greeting, ':')+1:])
	url := "http://127.0.0.1:" + port
	postJSON(t, url+"/apps/hello/users/ana/sessions/s", "")
	answer := postJSON(t, url+"/run", `{"appName":"hello","userId":"ana","sessionId":"s","newMessage":{"parts":[{"text":"How is the weather?"}]}}`)
	if !strings.Contains(answer, "It is always sunny in a script.") {
		t.Fatalf("the agent answers %s", answer)
	}
	elapsed := time.Since(start)
	t.Logf("%.1f s from the file to an answering agent", elapsed.Seconds())
	if elapsed > answerLimit {
		t.Errorf("the agent answered after %s, want at most %s", elapsed, answerLimit)
	}
	failOn(t, cmd.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, lines)
	stopped = true
	if err := cmd.Wait(); err != nil {
		t.Errorf("%q ended: %v\n%s", args, err, log.String())
	}
}

func postJSON(t *testing.T, url, body string) string {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	failOn(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	failOn(t, err)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %s\n%s", url, res.Status, answer)
	}
	return string(answer)
}
