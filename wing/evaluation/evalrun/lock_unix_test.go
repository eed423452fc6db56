//go:build linux || darwin

package evalrun_test

import (
	"path/filepath"
	"testing"
	"time"

	"agenthost/wing/evaluation/evalrun"
)

// Two processes cannot write one run's results: resuming a run that has not ended is an
// error, and does not disturb it.
func TestResumeRunning(t *testing.T) {
	r, job := openRun(t, nil)
	folder := t.TempDir()
	journal, err := job.Begin(folder, evalrun.Subject{App: "shop", Revision: "r1"}, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := "cannot resume " + filepath.Join(folder, "shop_greetings_1700000000.000001.evalset_result.partial") + ": another process is running it"
	if _, err := job.Resume(folder, evalrun.Subject{App: "shop", Revision: "r1"}); err == nil || err.Error() != want {
		t.Errorf("Resume = %v, want %s", err, want)
	}
	if err := r.Run(t.Context(), job, journal); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := job.Resume(folder, evalrun.Subject{App: "shop", Revision: "r1"}); err != nil || again.Len() != 5 {
		t.Errorf("Resume = %v, %v, want the five results of the run that has ended", again, err)
	}
}
