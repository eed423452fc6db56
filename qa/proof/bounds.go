package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/expr-lang/expr"
	"gopkg.in/yaml.v3"
)

const (
	// neighbourSave is the maximum median time until a save is live next to hostile
	// folders.
	neighbourSave = 2 * time.Second
	// neighbourCPU is the maximum CPU share for an idle host with hostile folders.
	neighbourCPU = 0.2
	// stormMemory is the maximum memory growth, in MB, while four concurrent turns call an
	// expensive tool: 128 MiB expression memory for each turn.
	stormMemory = 4 * 134
	// stormTurns is how many turns each of the four clients runs.
	stormTurns = 10
	// stormWait is an honest turn's maximum latency meanwhile.
	stormWait = 3 * time.Second
	// readersMemory is the maximum memory, in MB, for 100 stalled readers.
	readersMemory = 200
	stalledReader = 100
)

// boundRows checks a whole host's limits rather than single components'.
func boundRows(ctx context.Context, l *lab) (rows []row, err error) {
	for _, show := range []func(context.Context, *lab) (row, error){hostileFolders, callStorm, stalledReaders, removedDatabase, sharedCounters} {
		r, err := show(ctx, l)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// aliasBomb returns a document with 1000 aliases of a long string.
func aliasBomb() string {
	return "name: bomb\nx: &a " + strings.Repeat("x", 100_000) + "\ny: [" + strings.TrimSuffix(strings.Repeat("*a,", 1000), ",") + "]\n"
}

// hostileFolders measures one app's saves while other folders are expensive to load.
func hostileFolders(ctx context.Context, l *lab) (row, error) {
	dir := filepath.Join(l.dir, "hostile-folders")
	slowGate := func(rule string) string { return "name: gated\nmodel: demo\ninstruction: " + rule + "\n" }
	all := files{
		"bomb/root_agent.yaml":       aliasBomb(),
		"deep/root_agent.yaml":       "name: deep\nmodel: demo\ninstruction: x\n",
		"gated/app.yaml":             "reload: {gate: [tests]}\n" + scriptedModel,
		"gated/script.yaml":          "- text: hi\n",
		"gated/root_agent.yaml":      slowGate("One."),
		"gated/root_agent.test.yaml": "- name: slow\n  user: hi\n  model: [{text: hi, delay: 20s}]\n",
	}
	if err := errors.Join(guideApp().writeTo(dir), all.writeTo(dir), os.MkdirAll(filepath.Join(dir, "deep", strings.Repeat("d/", 900)), 0o700)); err != nil {
		return row{}, err
	}
	h, err := serveSQLite(ctx, l, filepath.Join(l.dir, "hostile-folders.db"), dir)
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	c := newClient(h.url, "guide", "none")
	defer c.close()
	s, err := c.waitForConfig(ctx, "the good app", func(s configState) bool { return s.OK })
	if err != nil {
		return row{}, err
	}
	pid := h.cmd.Process.Pid
	before, err := processorTime(pid)
	if err != nil {
		return row{}, err
	}
	if err := waitFor(ctx, 5*time.Second); err != nil {
		return row{}, err
	}
	after, err := processorTime(pid)
	if err != nil {
		return row{}, err
	}
	idleShare := (after - before).Seconds() / 5
	var latencies []time.Duration
	for i := range 5 {
		err := errors.Join(saveFile(filepath.Join(dir, "gated", "root_agent.yaml"), slowGate(fmt.Sprint("Rule ", i))),
			saveFile(filepath.Join(dir, "bomb", "root_agent.yaml"), aliasBomb()+fmt.Sprintf("# %d\n", i)),
			saveFile(filepath.Join(dir, "guide", "root_agent.yaml"), guideAgent(i+1)))
		if err != nil {
			return row{}, err
		}
		began, last := time.Now(), s.Revision
		if s, err = c.waitForConfig(ctx, "a save", func(s configState) bool { return s.OK && s.Revision != last }); err != nil {
			return row{}, err
		}
		latencies = append(latencies, time.Since(began))
	}
	slices.Sort(latencies)
	control := checkNaively(aliasBomb())
	return row{
		"an app with 1000 aliases of a long string, one with 900 nested folders and one with a slow gate do not delay other apps",
		fmt.Sprintf("5 saves of another app live after %s median, %s at most; the idle host uses %.0f %% of a CPU; control, a reader that follows each alias: %s for one scan",
			roundMillis(latencies[2]), roundMillis(latencies[4]), 100*idleShare, roundMillis(control)),
		latencies[2] < neighbourSave && idleShare < neighbourCPU && control > time.Second,
	}, nil
}

// checkNaively scans a document and visits each aliased string once for each alias.
func checkNaively(text string) time.Duration {
	began := time.Now()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return 0
	}
	pattern := regexp.MustCompile(`(sk|pk|ghp|xox[abp])[-_][A-Za-z0-9]{16,}|AIza[0-9A-Za-z_-]{35}`)
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		pattern.MatchString(n.Value)
		for _, inner := range n.Content {
			walk(inner)
		}
	}
	walk(&doc)
	return time.Since(began)
}

// stormExpression allocates several megabytes.
const stormExpression = "len(map(1..30000, map(1..3, #)))"

// callStorm runs a model that calls an expensive tool up to 1000 times in one answer.
func callStorm(ctx context.Context, l *lab) (row, error) {
	dir := filepath.Join(l.dir, "storm")
	calls := func(n int) string {
		return "calls: [" + strings.TrimSuffix(strings.Repeat("{name: costly},", n), ",") + "]}\n"
	}
	all := files{
		"storm/app.yaml":        scriptedModel,
		"storm/root_agent.yaml": "name: storm\nmodel: demo\ninstruction: x\ntools:\n  - expr: {name: costly, value: \"" + stormExpression + "\"}\n",
		"storm/script.yaml":     "- text: done\n  when: responses.costly != nil\n- {when: 'turn == 1', " + calls(1000) + "- {" + calls(128),
		"few/app.yaml":          scriptedModel,
		"few/root_agent.yaml":   "name: few\nmodel: demo\ninstruction: x\ntools:\n  - expr: {name: costly, value: \"len(1..10)\"}\n",
		"few/script.yaml":       "- text: done\n  when: responses.costly != nil\n- {" + calls(100),
	}
	if err := errors.Join(guideApp().writeTo(dir), all.writeTo(dir)); err != nil {
		return row{}, err
	}
	h, err := serveSQLite(ctx, l, filepath.Join(l.dir, "storm.db"), dir)
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	few := newClient(h.url, "few", "s")
	defer few.close()
	answer, err := few.runTurn(ctx, "go")
	if err != nil {
		return row{}, err
	}
	baseline, err := h.anonMemory()
	if err != nil {
		return row{}, err
	}
	stormCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; stormCtx.Err() == nil && n < stormTurns; n++ {
				c := newClient(h.url, "storm", fmt.Sprintf("s%d-%d", i, n/2))
				_, _ = c.runTurn(stormCtx, "go") // rejected, or stopped by a limit
				c.close()
			}
		})
	}
	c := newClient(h.url, "guide", "honest")
	defer c.close()
	var longest time.Duration
	peak, failed := baseline, 0
	for range 100 {
		began := time.Now()
		if _, err := c.runTurn(ctx, "hi"); err != nil {
			failed++
		}
		longest = max(longest, time.Since(began))
		if now, err := h.anonMemory(); err == nil {
			peak = max(peak, now)
		}
	}
	cancel()
	wg.Wait()
	control := evaluateNaively(1000)
	return row{
		"128 or 1000 expensive tool calls in one model answer do not affect the memory or latency of other turns",
		fmt.Sprintf("at most %.0f MB more, 100 other turns meanwhile: %d failed, longest %s; control, the same expressions run concurrently by the library alone: %.0f MB more; 100 cheap calls in one answer: %q",
			peak-baseline, failed, roundMillis(longest), control, answer),
		peak-baseline < stormMemory && failed == 0 && longest < stormWait && control > stormMemory && answer == "done",
	}, nil
}

// evaluateNaively evaluates the expression many times concurrently with the library
// alone and returns the memory growth in MB.
func evaluateNaively(times int) float64 {
	program, err := expr.Compile(stormExpression)
	if err != nil {
		return 0
	}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	before := heap[0].Value.Uint64()
	var peak uint64
	quit, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
				metrics.Read(heap)
				peak = max(peak, heap[0].Value.Uint64())
			}
		}
	}()
	_ = runConcurrently(times, func(int) error {
		_, err := expr.Run(program, nil)
		return err
	})
	close(quit)
	<-watched
	return float64(peak-min(peak, before)) / (1 << 20)
}

// stalledReaders requests a large session on many connections and does not read the
// responses.
func stalledReaders(ctx context.Context, l *lab) (row, error) {
	dir := filepath.Join(l.dir, "readers")
	if err := guideApp().writeTo(dir); err != nil {
		return row{}, err
	}
	h, err := serveSQLite(ctx, l, filepath.Join(l.dir, "readers.db"), dir)
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	c := newClient(h.url, "guide", "large")
	defer c.close()
	for range 4 {
		if _, err := c.runTurn(ctx, strings.Repeat("x", 3<<20)); err != nil {
			return row{}, err
		}
	}
	path := "/apps/guide/users/user/sessions/large"
	if _, err := c.readEvents(ctx); err != nil {
		return row{}, err
	}
	before, err := h.anonMemory()
	if err != nil {
		return row{}, err
	}
	closeAll, err := stallReaders(ctx, strings.TrimPrefix(h.url, "http://"), path, stalledReader)
	if err != nil {
		return row{}, err
	}
	held, err := h.anonMemory()
	closeAll()
	if err != nil {
		return row{}, err
	}
	after := held
	for range 50 {
		if after, err = h.anonMemory(); err != nil || after < before+50 {
			break
		}
		if err := waitFor(ctx, 100*time.Millisecond); err != nil {
			return row{}, err
		}
	}
	control, err := stallNaively(ctx, 20)
	if err != nil {
		return row{}, err
	}
	return row{
		"100 stalled readers of a 12 MiB session hold one copy of it, and its memory is freed within seconds",
		fmt.Sprintf("%.0f MB more while they stall, %.0f MB more within 5 s after they close; control, a server that builds a response for each reader: %.0f MB for 20 readers", held-before, after-before, control),
		held-before < readersMemory && after-before < readersMemory/2 && control > readersMemory,
	}, err
}

// stallReaders opens connections that request a path and read only the first bytes.
func stallReaders(ctx context.Context, addr, path string, n int) (closeAll func(), err error) {
	var all []net.Conn
	closeAll = func() {
		for _, conn := range all {
			_ = conn.Close()
		}
	}
	for range n {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return closeAll, err
		}
		all = append(all, conn)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		if _, err := io.ReadFull(conn, make([]byte, 32)); err != nil {
			closeAll()
			return closeAll, err
		}
	}
	return closeAll, nil
}

// stallNaively is the control: a handler that builds a response for each reader. It
// returns the memory growth in MB.
func stallNaively(ctx context.Context, readers int) (float64, error) {
	large := strings.Repeat("x", 12<<20)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, err := json.Marshal(map[string]string{"text": large})
		if err != nil {
			return
		}
		_, _ = w.Write(text)
	}))
	defer web.Close()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	before := heap[0].Value.Uint64()
	closeAll, err := stallReaders(ctx, web.Listener.Addr().String(), "/", readers)
	metrics.Read(heap)
	closeAll()
	now := heap[0].Value.Uint64()
	return float64(now-min(now, before)) / (1 << 20), err
}

// removedDatabase removes a running host's SQLite file.
func removedDatabase(ctx context.Context, l *lab) (row, error) {
	dir, db := filepath.Join(l.dir, "removed"), filepath.Join(l.dir, "removed.db")
	if err := guideApp().writeTo(dir); err != nil {
		return row{}, err
	}
	h, err := serveSQLite(ctx, l, db, dir)
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	c := newClient(h.url, "guide", "s")
	defer c.close()
	if _, err := c.runTurn(ctx, "hi"); err != nil {
		return row{}, err
	}
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(db + end); err != nil && !os.IsNotExist(err) {
			return row{}, err
		}
	}
	_, err = c.runTurn(ctx, "hi")
	turn := statusOf(err)
	if err := waitFor(ctx, 2*time.Second); err != nil {
		return row{}, err
	}
	_, err = c.sendRequest(ctx, http.MethodGet, "/readyz", nil)
	ready := statusOf(err)
	control := insertAfterRemoval(ctx, filepath.Join(l.dir, "removed-naive.db"))
	return row{
		"a host whose SQLite file was removed acknowledges no more turns and is not ready",
		fmt.Sprintf("a turn: %d, /readyz: %d; control, an insert through the open file succeeds: %v", turn, ready, control),
		turn == http.StatusServiceUnavailable && ready == http.StatusServiceUnavailable && control,
	}, nil
}

// statusOf returns the HTTP status that an error stands for, 200 for nil, or 0.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if r := (*statusError)(nil); errors.As(err, &r) {
		return r.status
	}
	return 0
}

// insertAfterRemoval reports whether an insert succeeds after the database file was
// removed.
func insertAfterRemoval(ctx context.Context, path string) bool {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		return false
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE t (n INTEGER)"); err != nil {
		return false
	}
	if err := os.Remove(path); err != nil {
		return false
	}
	_, err = db.ExecContext(ctx, "INSERT INTO t VALUES (1)")
	return err == nil
}

// sharedCounters increments a counter with add and, as the control, with set, from one user's many
// concurrent sessions.
func sharedCounters(ctx context.Context, l *lab) (row, error) {
	const sessions, each = 8, 25
	dir := filepath.Join(l.dir, "counters")
	all := files{
		"count/app.yaml": scriptedModel,
		"count/root_agent.yaml": `name: count
model: demo
instruction: Count.
after_agent_callbacks:
  - add: {"user:added": 1}
  - set: {"user:written": '(state["user:written"] ?? 0) + 1'}
`,
		"count/script.yaml": "- text: Counted.\n",
	}
	if err := all.writeTo(dir); err != nil {
		return row{}, err
	}
	h, err := serveSQLite(ctx, l, filepath.Join(l.dir, "counters.db"), dir)
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	err = runConcurrently(sessions, func(i int) error {
		c := newClient(h.url, "count", fmt.Sprint("s", i))
		defer c.close()
		for range each {
			if _, err := c.runTurn(ctx, "hi"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return row{}, err
	}
	f := &forger{client: newClient(h.url, "count", "s0")}
	defer f.close()
	added, err := f.readState(ctx, "user:added")
	if err != nil {
		return row{}, err
	}
	written, err := f.readState(ctx, "user:written")
	return row{
		"no increment of a shared counter is lost",
		fmt.Sprintf("%d sessions added 1 to a key of their user %d times each: %v; control, read-modify-write: %v", sessions, each, added, written),
		added == float64(sessions*each) && written != float64(sessions*each),
	}, err
}
