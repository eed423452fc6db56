package evalcommand

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"agenthost/internal/terminal"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

const (
	// progressInterval is the minimum time between two progress bar updates.
	progressInterval = 100 * time.Millisecond
	progressWidth    = 24
)

// A progressBar shows case runs on a terminal line. A nil bar shows nothing. It is safe for
// concurrent use.
type progressBar struct {
	out   io.Writer
	now   func() time.Time
	began time.Time
	total int

	mu sync.Mutex
	// resumed are the results from an interrupted run, which are part of done.
	resumed, done, passed int
	drawn                 time.Time
	width                 int
}

// newProgressBar returns a bar for a terminal, else nil.
func newProgressBar(out io.Writer, total int) *progressBar {
	if !terminal.IsTerminal(out) {
		return nil
	}
	return &progressBar{out: terminal.Unfiltered(out), now: time.Now, began: time.Now(), total: total}
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

// drawLine replaces the line. Spaces cover what the previous one has more.
func (p *progressBar) drawLine() {
	p.drawn = p.now()
	text := p.formatLine()
	fmt.Fprintf(p.out, "\r%s%s", text, strings.Repeat(" ", max(p.width-len(text), 0)))
	p.width = len(text)
}

func (p *progressBar) formatLine() string {
	filled := progressWidth
	if p.total > 0 {
		filled = progressWidth * p.done / p.total
	}
	ended := p.done - p.resumed
	text := fmt.Sprintf("[%s%s] %d/%d, %d passed, %d not passed", strings.Repeat("#", filled), strings.Repeat("-", progressWidth-filled), p.done, p.total, p.passed, ended-p.passed)
	if p.resumed > 0 {
		text += fmt.Sprintf(", %d resumed", p.resumed)
	}
	if left := p.total - p.done; left > 0 && ended > 0 {
		remaining := time.Duration(float64(p.now().Sub(p.began)) / float64(ended) * float64(left))
		text += fmt.Sprintf(", %s left", remaining.Round(time.Second))
	}
	return text
}

// clearLine removes the bar before other output.
func (p *progressBar) clearLine() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.width))
	p.width = 0
}
