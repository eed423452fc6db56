package provider

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Limits are the limits for a model's calls. A zero value means unlimited.
type Limits struct {
	// Concurrent is the maximum number of concurrent calls.
	Concurrent int
	// Requests and Tokens limit the attempts and the prompt and response tokens.
	Requests, Tokens Rate
	// Wait is how long a call waits for the limits; 0 is 1 min.
	Wait time.Duration
}

// A Rate is how many things are allowed in a duration.
type Rate struct {
	Count float64
	Per   time.Duration
}

const defaultLimitWait = time.Minute

// LimitsConfig is the YAML for [Limits].
type LimitsConfig struct {
	Concurrent int           `yaml:"concurrent" doc:"The maximum concurrent calls."`
	Requests   RateConfig    `yaml:"requests" doc:"The maximum requests in a period, such as 60/1m. Retries count."`
	Tokens     RateConfig    `yaml:"tokens" doc:"The maximum prompt and response tokens in a period, such as 200k/1m. The next call waits until earlier ones' tokens fit."`
	Wait       spec.Duration `yaml:"wait" default:"1m" doc:"How long a call waits for the limits before it fails with 429."`
}

// A RateConfig is a rate in YAML, such as 200k/1m.
type RateConfig Rate

var ratePattern = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kKmM]?)/(.+)$`)

// DecodeSpec decodes COUNT/DURATION; the count may end in k or M.
func (r *RateConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	var text spec.Text
	if ds := text.DecodeSpec(n); ds.HasErrors() {
		return ds
	}
	wrong := spec.Diagnostics{n.Errorf("value", "%s is not a rate such as 60/1m or 200k/1m", text.Value)}
	parts := ratePattern.FindStringSubmatch(strings.TrimSpace(text.Value))
	if parts == nil {
		return wrong
	}
	count, err := strconv.ParseFloat(parts[1], 64)
	per, perErr := time.ParseDuration(parts[3])
	if err != nil || perErr != nil || per <= 0 || count <= 0 || count > 1e12 {
		return wrong
	}
	switch parts[2] {
	case "k", "K":
		count *= 1e3
	case "m", "M":
		count *= 1e6
	}
	*r = RateConfig{count, per}
	return nil
}

// SchemaSpec describes a rate.
func (*RateConfig) SchemaSpec() map[string]any {
	return map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?[kKmM]?/.+|.*\$\{.*)$`}
}

func (c *LimitsConfig) validateLimits(n *spec.Node) spec.Diagnostics {
	if n == nil {
		return nil
	}
	var ds spec.Diagnostics
	if at := n.Get("concurrent"); at != nil && c.Concurrent < 1 {
		ds = append(ds, at.Errorf("value", "concurrent must be at least 1"))
	}
	if at := n.Get("wait"); at != nil && c.Wait <= 0 {
		ds = append(ds, at.Errorf("value", "wait must be above 0"))
	}
	return ds
}

// Limits returns the limits; false means that there are none.
func (c *LimitsConfig) Limits() (Limits, bool) {
	l := Limits{c.Concurrent, Rate(c.Requests), Rate(c.Tokens), time.Duration(c.Wait)}
	return l, l.Concurrent > 0 || l.Requests.Count > 0 || l.Tokens.Count > 0
}

// A LimitedConfig is the config for a model with limits.
type LimitedConfig interface {
	CallLimits() (Limits, bool)
}

// maxGateQueue limits the calls that wait for one gate.
const maxGateQueue = 10_000

// A Gate lets model calls pass within limits, in the order in which they arrive. Models that share
// a key and an address share a gate. It has no goroutine, and only waiting calls use memory. It is
// safe for concurrent use.
type Gate struct {
	mu               sync.Mutex
	limits           Limits
	running          int
	requests, tokens bucket
	queue            []*gateWaiter
	timer            *time.Timer // fires when a rate lets the first waiter pass
}

// A gateWaiter is a call in the queue; ready is closed when it may run.
type gateWaiter struct{ ready chan struct{} }

// NewGate returns a gate.
func NewGate(l Limits) *Gate {
	g := &Gate{}
	g.Tighten(l)
	return g
}

// Tighten applies another user's limits: the stricter ones count.
func (g *Gate) Tighten(l Limits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limits.Concurrent == 0 || l.Concurrent > 0 && l.Concurrent < g.limits.Concurrent {
		g.limits.Concurrent = l.Concurrent
	}
	g.requests.tightenRate(l.Requests)
	g.tokens.tightenRate(l.Tokens)
	if g.limits.Wait == 0 || l.Wait > 0 && l.Wait < g.limits.Wait {
		g.limits.Wait = l.Wait
	}
}

// Queued returns how many calls wait and how many run.
func (g *Gate) Queued() (waiting, running int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue), g.running
}

// AcquireSlot waits until the call may run. It calls onWait if it has to wait. The caller
// releases the gate after the call.
func (g *Gate) AcquireSlot(ctx context.Context, onWait func(cause string, delay time.Duration)) error {
	w, cause, delay, err := g.runOrEnqueue()
	if w == nil {
		return err
	}
	onWait(cause, delay)
	limit := g.waitLimit()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = limitError("waited %s for the model's limits: it %s", limit, cause)
	}
	if !g.leaveQueue(w) { // it was admitted at the same moment
		g.ReleaseSlot(0)
	}
	return err
}

func limitError(format string, args ...any) *model.Error {
	e := modelcall.NewConfigError(http.StatusTooManyRequests, fmt.Sprintf(format, args...))
	e.Hint = "raise the model's limits, or declare a fallback"
	return e
}

func (g *Gate) waitLimit() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limits.Wait == 0 {
		return defaultLimitWait
	}
	return g.limits.Wait
}

// runOrEnqueue admits the call, and then returns nil, or appends it to the queue.
func (g *Gate) runOrEnqueue() (w *gateWaiter, cause string, delay time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		if cause, delay = g.findObstacle(); cause == "" {
			g.startCall()
			return nil, "", 0, nil
		}
	} else if len(g.queue) >= maxGateQueue {
		return nil, "", 0, limitError("%d calls wait for the model's limits already", len(g.queue))
	} else if cause, delay = g.findObstacle(); cause == "" {
		cause = "has calls that wait longer"
	}
	w = &gateWaiter{make(chan struct{})}
	g.queue = append(g.queue, w)
	g.scheduleTimer()
	return w, cause, delay, nil
}

// findObstacle returns why the next call has to wait, and for how long if that is known; ""
// means that it may run.
func (g *Gate) findObstacle() (cause string, delay time.Duration) {
	now := time.Now()
	if c := g.limits.Concurrent; c > 0 && g.running >= c {
		return fmt.Sprintf("is at its limit of %d concurrent calls", c), 0
	}
	if d := g.requests.nextDelay(now); d > 0 {
		return "is at its limit of " + g.requests.rate.describeRate("requests"), d
	}
	if d := g.tokens.nextDelay(now); d > 0 {
		return "is at its limit of " + g.tokens.rate.describeRate("tokens"), d
	}
	return "", 0
}

func (r Rate) describeRate(noun string) string {
	return strconv.FormatFloat(r.Count, 'f', -1, 64) + " " + noun + " in " + r.Per.String()
}

func (g *Gate) startCall() {
	g.running++
	g.requests.spendTokens(1, time.Now())
}

// startWaiting starts the calls that may run, in order.
func (g *Gate) startWaiting() {
	for len(g.queue) > 0 {
		if cause, _ := g.findObstacle(); cause != "" {
			break
		}
		g.startCall()
		close(g.queue[0].ready)
		g.queue[0] = nil
		g.queue = g.queue[1:]
	}
	g.scheduleTimer()
}

// scheduleTimer sets the timer for the first call in the queue, or stops it. A release admits
// calls that wait for another one's end.
func (g *Gate) scheduleTimer() {
	_, delay := g.findObstacle()
	switch {
	case len(g.queue) == 0 || delay <= 0:
		if g.timer != nil {
			g.timer.Stop()
		}
		if len(g.queue) == 0 {
			g.queue = nil // release a long queue's memory
		}
	case g.timer == nil:
		g.timer = time.AfterFunc(delay, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.startWaiting()
		})
	default:
		g.timer.Reset(delay)
	}
}

// leaveQueue removes a call that no longer waits. It returns false if the call was
// admitted.
func (g *Gate) leaveQueue(w *gateWaiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.queue, w)
	if at < 0 {
		return false
	}
	g.queue = slices.Delete(g.queue, at, at+1)
	g.startWaiting()
	return true
}

// ReleaseSlot ends a call that used tokens.
func (g *Gate) ReleaseSlot(tokens int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.tokens.spendTokens(float64(tokens), time.Now())
	g.startWaiting()
}

// A bucket is a token bucket. Its level may become negative: a call's tokens are known only after
// it.
type bucket struct {
	rate  Rate // zero means unlimited
	level float64
	at    time.Time
}

func (b *bucket) tightenRate(r Rate) {
	if r.Count == 0 || b.rate.Count > 0 && b.rate.Count/b.rate.Per.Seconds() <= r.Count/r.Per.Seconds() {
		return
	}
	b.level, b.at, b.rate = r.Count, time.Now(), r
}

// nextDelay returns the time until one token is there.
func (b *bucket) nextDelay(now time.Time) time.Duration {
	if b.rate.Count == 0 {
		return 0
	}
	b.refillLevel(now)
	if need := min(1, b.rate.Count); b.level < need {
		return time.Duration((need-b.level)/b.rate.Count*float64(b.rate.Per)) + time.Nanosecond
	}
	return 0
}

func (b *bucket) spendTokens(n float64, now time.Time) {
	if b.rate.Count == 0 {
		return
	}
	b.refillLevel(now)
	b.level -= n
}

func (b *bucket) refillLevel(now time.Time) {
	b.level = min(b.rate.Count, b.level+float64(now.Sub(b.at))/float64(b.rate.Per)*b.rate.Count)
	b.at = now
}
