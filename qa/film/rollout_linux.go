package film

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// rolloutShop is the app whose change is taken back: the other model calls a tool with a wrong argument,
// which no record of the first one shows.
//
//go:embed rollout/shop
var rolloutShop embed.FS

// faultyAnswer is what the other model answers after its failed call.
const faultyAnswer = "It costs a hundred."

// RecordRollout plans, replays and rolls out a change with a fault, which the host finds and takes back by
// itself, with the agenthost binary at path bin, in a temporary folder. It returns the recording as SVG,
// and all lines that the terminal has shown at the end.
func RecordRollout(ctx context.Context, bin string) (svg []byte, lines string, err error) {
	dir, err := os.MkdirTemp("", "film")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	files, err := fs.Sub(rolloutShop, "rollout")
	if err != nil {
		return nil, "", err
	}
	for _, copied := range []string{dir, filepath.Join(dir, "live")} {
		if err := os.CopyFS(copied, files); err != nil {
			return nil, "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	url, stop, err := serveLive(ctx, bin, dir)
	if err != nil {
		return nil, "", err
	}
	defer stop()
	if _, err := sendTraffic(ctx, url, "before", func(sent int) bool { return sent == 60 }); err != nil {
		return nil, "", err
	}
	r := &terminalRecorder{ctx: ctx, title: "A change is planned, replayed, rolled out, taken back and explained", columns: 130, rows: 32, bin: bin, dir: dir, clean: hideReplica}
	if err := r.openTerminal(); err != nil {
		return nil, "", err
	}
	defer r.tty.Close()
	defer r.side.Close()
	r.runToEnd("sed -i s/large/small/ shop/root_agent.yaml", "")
	r.runToEnd("agenthost plan shop", "new sessions a day")
	r.runToEnd("agenthost replay shop", "95 % confidence")
	r.runToEnd("cp shop/root_agent.yaml live/shop/", "")
	r.writeComment("the host gives the change to 5 % of the new sessions, and watches them")
	began := time.Now()
	faulty, err := sendTraffic(ctx, url, "after", func(int) bool { return r.err != nil || hasEnded(url) })
	if err != nil {
		return nil, "", err
	}
	r.now += time.Since(began)
	r.runToEnd("agenthost rollout status shop", "aborted  ")
	r.runToEnd("agenthost why shop "+faulty+" --user "+faulty, "root_agent.yaml:3:14\n  You sell lamps.")
	r.now += 3 * readingTime
	if r.err != nil {
		return nil, "", r.err
	}
	return r.drawSVG(), r.listLines(), nil
}

// runToEnd runs a command, shows its output, whose last line has the text, and waits for its end. A plan with changes
// has the exit status 4.
func (r *terminalRecorder) runToEnd(line, text string) {
	if r.runCommand(line, text); r.err != nil {
		return
	}
	r.waitForEnd()
	if failed, ok := errors.AsType[*exec.ExitError](r.err); ok && failed.ExitCode() == 4 {
		r.err = nil
	}
}

// writeComment types a comment after a shell's prompt.
func (r *terminalRecorder) writeComment(text string) {
	r.writeText("$ # ")
	for _, c := range text {
		r.writeText(string(c))
		r.now += keyDelay / 2
	}
	r.writeText("\r\n")
}

var replicaName = regexp.MustCompile(`host \S+/\d+/[0-9a-f]{12}`)

// hideReplica gives the replica a name of the same length that does not differ between recordings.
func hideReplica(output []byte) []byte {
	return replicaName.ReplaceAllFunc(output, func(name []byte) []byte {
		return append([]byte("host shop-1"), bytes.Repeat([]byte(" "), max(0, len(name)-len("host shop-1")))...)
	})
}

// serveLive serves the copy in the folder live until stop is called.
func serveLive(ctx context.Context, bin, dir string) (url string, stop func(), err error) {
	host := exec.CommandContext(ctx, bin, "serve", "--addr", "127.0.0.1:0", "--auto-create-session", "--log-level", "error", "live/shop")
	host.Dir, host.Env = dir, append(os.Environ(), "AGENTHOST_SESSION_DB=sqlite:///"+dir+"/sessions.db")
	out, err := host.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := host.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = host.Process.Signal(syscall.SIGTERM)
		_ = host.Wait() // the exit status does not matter
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, found := strings.CutPrefix(strings.TrimSpace(line), "agenthost serves at ")
	if err != nil || !found {
		stop()
		return "", nil, fmt.Errorf("unexpected first line %q: %w", line, err)
	}
	return url, stop, nil
}

// sendTraffic runs turns in new sessions until done. It returns the first session, which is named after its
// user, with the faulty answer.
func sendTraffic(ctx context.Context, url, prefix string, done func(sent int) bool) (faulty string, err error) {
	for sent := 0; !done(sent); sent++ {
		name := fmt.Sprint(prefix, sent)
		body := fmt.Sprintf(`{"appName":"shop","userId":%[1]q,"sessionId":%[1]q,"newMessage":{"role":"user","parts":[{"text":"How much is the blue lamp?"}]}}`, name)
		text, err := sendRequest(ctx, http.MethodPost, url+"/run", body)
		if err != nil {
			return "", err
		}
		if faulty == "" && strings.Contains(text, faultyAnswer) {
			faulty = name
		}
	}
	return faulty, nil
}

// hasEnded reports whether the rollout was aborted.
func hasEnded(url string) bool {
	text, err := sendRequest(context.Background(), http.MethodGet, url+"/apps/shop/rollout", "")
	return err == nil && strings.Contains(text, `"aborted"`)
}

// sendRequest returns a response's body.
func sendRequest(ctx context.Context, method, url, body string) (text string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	all, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, all)
	}
	return string(all), err
}
