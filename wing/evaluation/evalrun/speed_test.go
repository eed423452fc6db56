//go:build linux || darwin

package evalrun_test

import (
	"context"
	"iter"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	agentruntime "agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalreport"
	"agenthost/wing/evaluation/evalrun"
)

// cpuTime returns the process's processor time.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// runTurns sends each case's message in a session of its own, without an evaluation.
func runTurns(t testing.TB, r *evalrun.Runner, job *evalrun.Job, store string) {
	t.Helper()
	st, err := storeurl.Open(t.Context(), store, &storeurl.Options{Schemes: testenv.Schemes()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	host := agentruntime.NewHost(st, &agentruntime.Options{})
	host.Swap(r.App)
	for _, c := range job.Cases {
		key := session.Key{App: r.App.Name(), User: "u", ID: c.ID}
		if _, err := st.Sessions.Create(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		req := &agentruntime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: c.Conversation[0].UserContent}
		for _, err := range host.Run(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// runJob runs a job, reports it and writes the result.
func runJob(t testing.TB, r *evalrun.Runner, job *evalrun.Job, log func(*evalrun.Journal) evalrun.ResultLog) {
	t.Helper()
	journal, err := job.Begin(t.TempDir(), evalrun.Subject{App: "shop", Revision: "r1"}, time.Unix(1700000000, 0))
	if err == nil {
		err = r.Run(t.Context(), job, log(journal))
	}
	report, reportErr := evalreport.New("table", false)
	if err != nil || reportErr != nil {
		t.Fatal(err, reportErr)
	}
	defer report.Close()
	if err := report.AddRun(job, journal, nil); err != nil {
		t.Fatal(err)
	}
	if len(report.Cases) != len(job.Cases) || !report.HasPassed() {
		t.Fatalf("%d of %d cases passed", len(report.Cases), len(job.Cases))
	}
	if _, err := journal.Finish(); err != nil {
		t.Fatal(err)
	}
}

func asLog(j *evalrun.Journal) evalrun.ResultLog { return j }

// A case costs the turn, its scores by the two default metrics, its result with the whole
// session, and the report. A turn in SQLite is one that stores its session, too.
func BenchmarkCase(b *testing.B) {
	r, job := openRun(b, map[string]string{"first.evalset.json": caseSet(1000)})
	for _, work := range []struct {
		name string
		run  func()
	}{
		{"turn/memory", func() { runTurns(b, r, job, "memory:") }},
		{"turn/sqlite", func() { runTurns(b, r, job, "sqlite:///"+filepath.Join(b.TempDir(), "s.db")) }},
		{"case", func() { runJob(b, r, job, asLog) }},
	} {
		b.Run(work.name, func(b *testing.B) {
			began := cpuTime(b)
			for b.Loop() {
				work.run()
			}
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N*len(job.Cases)), "cpu-ns/case")
		})
	}
}

// heapLog measures the live memory after 1000 results and after the last one.
type heapLog struct {
	*evalrun.Journal
	total       int
	early, late uint64
}

func (l *heapLog) Append(result *eval.CaseResult) error {
	err := l.Journal.Append(result)
	switch l.Len() {
	case 1000:
		l.early = liveHeap()
	case l.total:
		l.late = liveHeap()
	}
	return err
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A run's memory does not grow with its results: 9000 further cases take less than 256 bytes
// each, for the results' places in their file.
func TestEvalMemory(t *testing.T) {
	r, job := openRun(t, map[string]string{"first.evalset.json": caseSet(10_000)})
	r.Parallel = 1
	log := &heapLog{total: 10_000}
	runJob(t, r, job, func(j *evalrun.Journal) evalrun.ResultLog {
		log.Journal = j
		return log
	})
	grown := int64(log.late) - int64(log.early)
	t.Logf("live memory: %.2f MB after 1000 cases, %.2f MB after 10 000", float64(log.early)/1e6, float64(log.late)/1e6)
	if grown > 9000*256 {
		t.Errorf("live memory has grown by %d bytes, want at most %d", grown, 9000*256)
	}
}

// slowJudge answers after 200 ms.
type slowJudge struct{ model.LLM }

func (slowJudge) Name() string { return "critic" }

func (slowJudge) Generate(ctx context.Context, _ *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		select {
		case <-time.After(200 * time.Millisecond):
			yield(&model.Response{Content: genai.NewContentFromText(`{"reasoning": "Equal.", "is_the_agent_response_valid": "valid"}`, "model")}, nil)
		case <-ctx.Done():
			yield(nil, ctx.Err())
		}
	}
}

// Ten cases whose judge takes 200 ms each, run in parallel, take less than 1.3 times as long
// as one.
func TestJudgesInParallel(t *testing.T) {
	r, job := openRun(t, map[string]string{"first.evalset.json": caseSet(10)})
	samples, threshold := 1, 1.0
	job.Measures = []*eval.Measure{{Metric: eval.FinalResponseMatch, Threshold: &threshold, Criterion: &eval.Criterion{
		Threshold: &threshold, Judge: &eval.JudgeOptions{Model: "critic", Samples: &samples},
	}}}
	r.Models, r.Parallel = evalrun.Models{"critic": slowJudge{}}, 10
	took := func(cases []*eval.Case) (d time.Duration) {
		some := *job
		some.Cases = cases
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			runJob(t, r, &some, asLog)
			d = time.Since(began)
		})
		return d
	}
	one, ten := took(job.Cases[:1]), took(job.Cases)
	t.Logf("one judge: %s, ten judges: %s", one, ten)
	if one < 200*time.Millisecond || float64(ten) >= 1.3*float64(one) {
		t.Errorf("ten judges take %s, want less than 1.3 times the %s of one", ten, one)
	}
}
