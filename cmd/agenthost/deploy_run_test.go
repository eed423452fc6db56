package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agenthost/internal/fake/fakegemini"
)

// containedHost is a host process with its own file system and user, as in a container.
type containedHost struct {
	t    *testing.T
	root string
	user *syscall.Credential
	env  []string
	cmd  *exec.Cmd
	url  string
	log  *lockedBuffer
	// exited is closed when the process exits; err is then its result.
	exited chan struct{}
	err    error
}

// newContainedHost creates the image's file system with a binary that the Dockerfile's build
// command produced. Its user can write only to data.
func newContainedHost(t *testing.T, m *image, binary string) *containedHost {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("chroot requires root")
	}
	user, group, _ := strings.Cut(m.user, ":")
	uid, err := strconv.ParseUint(user, 10, 32)
	gid, groupErr := strconv.ParseUint(group, 10, 32)
	if err != nil || groupErr != nil {
		t.Fatalf("the image runs as %q", m.user)
	}
	c := &containedHost{t: t, root: t.TempDir(), user: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, log: &lockedBuffer{}}
	c.failOn(os.Chmod(c.root, 0o755))
	for _, dir := range []string{"apps", "data"} {
		c.failOn(os.Mkdir(filepath.Join(c.root, dir), 0o755))
	}
	c.failOn(os.Chown(filepath.Join(c.root, "data"), int(uid), int(gid)))
	c.failOn(os.Link(binary, filepath.Join(c.root, "agenthost")))
	return c
}

func (c *containedHost) failOn(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// mountFiles mounts files through symbolic links, as Kubernetes mounts a ConfigMap. A
// second call updates them.
func (c *containedHost) mountFiles(at string, files map[string]string) {
	c.t.Helper()
	dir := filepath.Join(c.root, at)
	c.failOn(os.MkdirAll(dir, 0o755))
	version, err := os.MkdirTemp(dir, "..v")
	c.failOn(err)
	c.failOn(os.Chmod(version, 0o755))
	for name, text := range files {
		c.failOn(os.WriteFile(filepath.Join(version, name), []byte(text), 0o644))
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			c.failOn(os.Symlink("..data/"+name, filepath.Join(dir, name)))
		}
	}
	c.failOn(os.Symlink(filepath.Base(version), filepath.Join(dir, "..new")))
	c.failOn(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
}

func (c *containedHost) newCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: c.user}
	return cmd
}

// startHost starts the process with variables, where later ones override earlier ones,
// and waits until it serves.
func (c *containedHost) startHost(args []string, variables ...map[string]string) {
	c.t.Helper()
	all := map[string]string{}
	for _, set := range variables {
		maps.Copy(all, set)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c.env = append(c.env, name+"="+all[name])
	}
	c.cmd, c.exited = c.newCommand(args...), make(chan struct{})
	out, err := c.cmd.StdoutPipe()
	c.failOn(err)
	c.cmd.Stderr = c.log
	c.failOn(c.cmd.Start())
	reader := bufio.NewReader(out)
	greeting, err := reader.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, reader)
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	c.t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have exited already
		<-c.exited
	})
	if err != nil {
		<-c.exited
		c.t.Fatalf("%q ended: %v\n%s", args, c.err, c.log)
	}
	port := strings.TrimSpace(greeting[strings.LastIndexByte(greeting, ':')+1:])
	c.url = "http://127.0.0.1:" + port
	c.env = append(c.env, "AGENTHOST_ADDR=0.0.0.0:"+port)
}

// requestText sends a request and returns status and body.
func (c *containedHost) requestText(method, path, token, body string) (int, string) {
	c.t.Helper()
	res := c.sendRequest(method, path, token, body)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	c.failOn(err)
	return res.StatusCode, string(text)
}

func (c *containedHost) sendRequest(method, path, token, body string) *http.Response {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitLimit)
	c.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	c.failOn(err)
	req.Close = true
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	c.failOn(err)
	return res
}

func (c *containedHost) expectResponse(method, path, token string, status int, part string) {
	c.t.Helper()
	if got, body := c.requestText(method, path, token, ""); got != status || !strings.Contains(body, part) {
		c.t.Errorf("%s %s = %d %s, want %d with %q", method, path, got, body, status, part)
	}
}

// waitForResponse repeats a request until the response matches.
func (c *containedHost) waitForResponse(path, token string, status int, part string) {
	c.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(waitLimit)
	for {
		got, body := c.requestText(http.MethodGet, path, token, "")
		if got == status && strings.Contains(body, part) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			c.t.Fatalf("GET %s = %d %s, want %d with %q", path, got, body, status, part)
		}
	}
}

// expectExit checks that the process exits with status 0 within limit.
func (c *containedHost) expectExit(limit time.Duration) {
	c.t.Helper()
	select {
	case <-c.exited:
	case <-time.After(limit):
		c.t.Fatalf("the host still runs %s after the signal", limit)
	}
	if c.err != nil {
		c.t.Errorf("the host exited: %v\n%s", c.err, c.log)
	}
}

// lockedBuffer collects a process's output.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// The image and the Deployment run. The binary is built by the Dockerfile's command and runs in its
// own file system as the image's user, with the same arguments and variables, except for the port
// and the Secret's content.
func TestDeployedHostsRun(t *testing.T) {
	m, dir := readImage(t), t.TempDir()
	binary := filepath.Join(dir, "agenthost")
	build := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(m.build, "/out/agenthost", binary, 1))
	build.Dir = repo
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", m.build, err, out)
	}
	t.Run("image", func(t *testing.T) { testImage(t, m, binary) })
	t.Run("deployment", func(t *testing.T) { testDeployment(t, m, binary) })
}

// The image alone serves the apps in /apps and stores sessions in /data. Without authentication it
// exits with an error that names the flag.
func testImage(t *testing.T, m *image, binary string) {
	c := newContainedHost(t, m, binary)
	hello := map[string]string{
		"root_agent.yaml": "name: hello\nmodel: demo\ninstruction: Greet.\n",
		"app.yaml":        "models: {demo: {provider: scripted, script: s.yaml}}\n",
		"s.yaml":          "- {text: Good morning}\n",
	}
	c.mountFiles("apps/hello", hello)
	args := slices.Concat(m.entrypoint, m.args)
	for name, value := range m.env {
		c.env = append(c.env, name+"="+value)
	}
	if out, err := c.newCommand(args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "set --auth") {
		t.Errorf("the image alone prints %s (%v)", out, err)
	}
	c.env = nil
	c.startHost(args, m.env, map[string]string{"AGENTHOST_INSECURE": "true", "AGENTHOST_ADDR": "0.0.0.0:0"})
	c.expectResponse("GET", "/readyz", "", 200, `"ready":true`)
	if out, err := c.newCommand(m.health...).CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", m.health, err, out)
	}
	c.expectResponse("POST", "/apps/hello/users/ana/sessions/s", "", 200, `"id":"s"`)
	if status, body := c.requestText("POST", "/run", "", runBody("hello", "ana")); status != 200 || !strings.Contains(body, "Good morning") {
		t.Errorf("a turn = %d %s", status, body)
	}
	if _, err := os.Stat(filepath.Join(c.root, "data", "agenthost.db")); err != nil {
		t.Error(err)
	}
	c.failOn(c.cmd.Process.Signal(syscall.SIGTERM))
	c.expectExit(shutdownTime)
	if out, err := c.newCommand(m.health...).CombinedOutput(); err == nil {
		t.Errorf("%q of a stopped host: %s", m.health, out)
	}
}

func runBody(app, user string) string {
	return fmt.Sprintf(`{"appName":%q,"userId":%q,"sessionId":"s","streaming":true,"newMessage":{"parts":[{"text":"hi"}]}}`, app, user)
}

// The Deployment's host serves on PostgreSQL and reloads a changed ConfigMap. After
// SIGTERM it is not ready, drains its streams, and exits with status 0 within its grace
// period.
func testDeployment(t *testing.T, m *image, binary string) {
	url, drop, err := postgresEngine().Fresh(t.Context(), "")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	model := fakegemini.New()
	t.Cleanup(model.Close)
	p := readPod(t)
	m.user = fmt.Sprintf("%d:%d", p.Security.User, p.Security.Group)
	c := newContainedHost(t, m, binary)
	// The pod's file system is read-only.
	c.failOn(os.Chown(filepath.Join(c.root, "data"), 0, 0))
	files := map[string]map[string]string{}
	for at, names := range mountedFiles(t) {
		files[at] = map[string]string{}
		for _, name := range names {
			files[at][filepath.Base(name)] = readText(t, filepath.Join(kubeDir, name))
		}
		c.mountFiles(at, files[at])
	}
	c.startHost(slices.Concat(m.entrypoint, p.container().Args), m.env, readSecret(t), p.container().variables(), map[string]string{
		"AGENTHOST_ADDR": "0.0.0.0:0", "AGENTHOST_SESSION_DB": url, "AGENTHOST_ARTIFACTS": "memory:", "GOOGLE_GEMINI_BASE_URL": model.URL(),
	})
	ops := readSecret(t)["OPS_TOKEN"]
	for _, probed := range []probe{p.container().Startup, p.container().Liveness, p.container().Readiness} {
		c.expectResponse("GET", probed.HTTP.Path, "", 200, "")
	}
	c.expectResponse("GET", readManifest(t, "deployment.yaml").Spec.Template.Metadata.Annotations["prometheus.io/path"], "", 401, "")
	c.expectResponse("GET", "/metrics", ops, 200, "agenthost_app_info")
	scraper := readSecret(t)["METRICS_TOKEN"]
	c.expectResponse("GET", "/metrics", scraper, 200, "agenthost_app_info")
	c.expectResponse("GET", "/apps/desk/diagnostics", scraper, 403, "")
	if status, body := c.requestText("POST", "/run", scraper, runBody("desk", "metrics")); status != 403 {
		t.Errorf("a turn with the scraper's token: %d %s", status, body)
	}
	c.expectResponse("POST", "/apps/desk/users/ops/sessions/s", ops, 200, `"id":"s"`)

	files["/apps/desk"]["root_agent.yaml"] += "description: changed while running\n"
	c.mountFiles("/apps/desk", files["/apps/desk"])
	c.waitForResponse("/list-apps?detailed=true", ops, 200, "changed while running")

	release := make(chan struct{})
	model.Enqueue(fakegemini.Reply{Parts: fakegemini.Text("one ", "two").Parts, Hold: release})
	res := c.sendRequest("POST", "/run_sse", ops, runBody("desk", "ops"))
	defer res.Body.Close()
	stream := bufio.NewReader(res.Body)
	if first, err := stream.ReadString('\n'); err != nil || !strings.Contains(first, "one ") {
		t.Fatalf("the stream starts with %q (%v)", first, err)
	}
	c.failOn(c.cmd.Process.Signal(syscall.SIGTERM))
	c.waitForResponse(p.container().Readiness.HTTP.Path, ops, 503, "shutting down")
	c.expectResponse("GET", p.container().Liveness.HTTP.Path, "", 200, "")
	close(release)
	rest, err := io.ReadAll(stream)
	if err != nil || !strings.Contains(string(rest), "one two") {
		t.Errorf("the stream ends with %q (%v)", rest, err)
	}
	c.expectExit(time.Duration(p.Grace-p.container().Lifecycle.PreStop.Sleep.Seconds) * time.Second)
}
