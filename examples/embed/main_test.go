package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The program in docs/embedding.md serves a turn, and exits after SIGTERM.
func TestEmbed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "embed")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(program, "../../apps/hello", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "serving at "))
	resp, err := http.Get(url + "/list-apps")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), `"hello"`) {
		t.Errorf("GET /list-apps = %s", body)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// docs/embedding.md contains main.go, and the parts of the example module.
func TestEmbeddingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"main.go", "../extend/provider.go", "../extend/tool.go", "../extend/agent.go", "../extend/plugin.go", "../extend/route.go", "../extend/store.go", "../extend/store_test.go", "../extend/shop/root_agent.yaml", "../extend/shop/app.yaml", "../../wing/evaluation/evaltest/desk_test.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n"+string(b)+"```\n") {
			t.Errorf("docs/embedding.md does not contain %s", file)
		}
	}
}
