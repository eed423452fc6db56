package evalcommand

import (
	"fmt"
	"io"
	"sync"
	"time"

	"agenthost/internal/terminal"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// progressInterval is the minimum time between two progress bar updates.
const progressInterval = 100 * time.Millisecond

// A progressBar shows case runs on a terminal line. A nil bar shows nothing. It is safe for
// concurrent use.
type progressBar struct {
	bar   *terminal.Progress
	now   func() time.Time
	began time.Time
	total int

	mu sync.Mutex
	// resumed are the results from an interrupted run, which are part of done.
	resumed, done, passed int
	drawn                 time.Time
}

// newProgressBar returns a bar for a terminal, else nil.
func newProgressBar(out io.Writer, total int) *progressBar {
	bar := terminal.NewProgress(out, total)
	if bar == nil {
		return nil
	}
	return &progressBar{bar: bar, now: time.Now, began: time.Now(), total: total}
}

// wrapLog returns a log that counts results before it appends them.
func (p *progressBar) wrapLog(log *evalrun.Journal) evalrun.ResultLog {
	if p == nil {
		return log
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumed += log.Len()
	p.done += log.Len()
	p.drawLine()
	return &progressLog{log, p}
}

type progressLog struct {
	evalrun.ResultLog
	bar *progressBar
}

// Append appends a result and shows it.
func (l *progressLog) Append(result *eval.CaseResult) error {
	l.bar.addResult(result.Status == eval.Passed)
	return l.ResultLog.Append(result)
}

func (p *progressBar) addResult(passed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if passed {
		p.passed++
	}
	if p.now().Sub(p.drawn) >= progressInterval || p.done == p.total {
		p.drawLine()
	}
}

// drawLine draws the bar with what the results are and how long the others take.
func (p *progressBar) drawLine() {
	p.drawn = p.now()
	ended := p.done - p.resumed
	text := fmt.Sprintf("%d passed, %d not passed", p.passed, ended-p.passed)
	if p.resumed > 0 {
		text += fmt.Sprintf(", %d resumed", p.resumed)
	}
	if left := p.total - p.done; left > 0 && ended > 0 {
		remaining := time.Duration(float64(p.now().Sub(p.began)) / float64(ended) * float64(left))
		text += fmt.Sprintf(", %s left", remaining.Round(time.Second))
	}
	p.bar.Update(p.done, text)
}

// clearLine removes the bar before other output.
func (p *progressBar) clearLine() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bar.Clear()
}
