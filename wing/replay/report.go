package replay

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"agenthost/internal/statistics"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A Report is what a replay shows. It has no texts and no values, except in Before and After.
type Report struct {
	App string `json:"app"`
	// Revision identifies the files.
	Revision string `json:"revision"`
	// Sessions is how many were replayed, of Examined ones. More reports that there are older ones.
	Sessions int  `json:"sessions"`
	Examined int  `json:"examined"`
	More     bool `json:"more,omitempty"`
	// Turns is how many turns were replayed on both revisions, and Omitted how many came after a first
	// difference or before the last 100 turns.
	Turns   int `json:"turns"`
	Omitted int `json:"omitted"`
	// Same is how many sessions are the same in all turns that could be compared.
	Same int `json:"same"`
	// Counts are the sessions that differ, by class.
	Counts map[Class]int `json:"counts"`
	// Differences are the first ones of their sessions, worst first.
	Differences []Difference `json:"differences"`
	// Incomparable are turns that the revision that answered them does not repeat.
	Incomparable []Incomparable `json:"incomparable"`
	// Unpaired is how many sessions were compared with the record alone, because their revision is not
	// stored or cannot be built.
	Unpaired int `json:"unpaired"`
	// Gone is how many sessions were deleted meanwhile, and Unreadable how many have no turn to replay.
	Gone       int `json:"gone"`
	Unreadable int `json:"unreadable"`
	// Live reports that models were called: Calls times, for USD. Unplayed is how many sessions were not replayed
	// because of the ceiling.
	Live     bool    `json:"live,omitempty"`
	Calls    int     `json:"calls,omitempty"`
	USD      float64 `json:"usd,omitempty"`
	Unplayed int     `json:"unplayed,omitempty"`
	// Strays is how many sessions only the old revision does not repeat.
	Strays int `json:"strays"`
	// P is the probability of such counts if both revisions repeat their sessions equally often, by
	// McNemar's exact test.
	P float64 `json:"p"`
	// Most is the highest share of sessions that may differ, with 95 % confidence.
	Most float64 `json:"most"`
}

// A Difference is a session's first one.
type Difference struct {
	User    string `json:"user"`
	Session string `json:"session"`
	Turn    int    `json:"turn"`
	// Event is the turn's first event, for why.
	Event string `json:"event"`
	Class Class  `json:"class"`
	// Place names tools, agents or state keys: find_order → ask_user.
	Place string `json:"place"`
	Agent string `json:"agent,omitempty"`
	// Lacks is the call without a recorded answer, if there is one.
	Lacks string `json:"lacks,omitempty"`
	// Lines are the agent's changed lines, as file:line, at most three.
	Lines []string `json:"lines"`
	// Before and After are the values that differ.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Baseline reports that the revision that answered repeats its turn.
	Baseline bool `json:"baseline"`
}

// An Incomparable is a turn that the revision that answered it does not repeat.
type Incomparable struct {
	User    string `json:"user"`
	Session string `json:"session"`
	Turn    int    `json:"turn"`
	Class   Class  `json:"class"`
	Place   string `json:"place"`
	Reason  string `json:"reason"`
}

func newReport(app, revision string, chosen *cohort) *Report {
	return &Report{App: app, Revision: revision, Examined: chosen.examined, More: chosen.more, Counts: map[Class]int{}, Differences: []Difference{}, Incomparable: []Incomparable{}, P: 1, Most: 1}
}

// A sessionResult is what a session's replay shows.
type sessionResult struct {
	key session.Key
	// turns is how many turns were replayed, and omitted how many were not.
	turns, omitted int
	// difference is the first one; nil if there is none.
	difference *Difference
	// strays reports that the revision that answered differs from the record where the files do not.
	strays bool
	// unpaired reports that a turn's revision was not available.
	unpaired bool
	// incomparable are the turns that the revision that answered does not repeat.
	incomparable []Incomparable
	// gone reports that the session was deleted, and unreadable is why it has no turns.
	gone       bool
	unreadable string
	// unplayed reports that the ceiling was reached.
	unplayed bool
}

// addSession adds a session's result.
func (r *Report) addSession(s *sessionResult) {
	switch {
	case s.gone:
		r.Gone++
		return
	case s.unplayed:
		r.Unplayed++
		return
	case s.unreadable != "":
		r.Unreadable++
		return
	}
	r.Sessions++
	r.Turns += s.turns
	r.Omitted += s.omitted
	r.Incomparable = append(r.Incomparable, s.incomparable...)
	if s.unpaired {
		r.Unpaired++
	}
	if s.strays {
		r.Strays++
	}
	if s.difference != nil {
		r.Counts[s.difference.Class]++
		r.Differences = append(r.Differences, *s.difference)
	} else if len(s.incomparable) < s.turns || s.turns == 0 {
		r.Same++
	}
}

// sortDifferences orders the differences, and computes what follows from the counts.
func (r *Report) sortDifferences() {
	slices.SortFunc(r.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(classes, a.Class), slices.Index(classes, b.Class)), strings.Compare(a.User, b.User), strings.Compare(a.Session, b.Session))
	})
	slices.SortFunc(r.Incomparable, func(a, b Incomparable) int {
		return cmp.Or(strings.Compare(a.User, b.User), strings.Compare(a.Session, b.Session), cmp.Compare(a.Turn, b.Turn))
	})
	paired := 0
	for _, d := range r.Differences {
		if d.Baseline {
			paired++
		}
	}
	r.P = statistics.McNemar(int64(paired), int64(r.Strays))
	r.Most = statistics.RateInterval(int64(len(r.Differences)), int64(r.Sessions)).High
	if len(r.Differences) == 0 && r.Sessions > 0 {
		r.Most = min(1, 3/float64(r.Sessions)) // the rule of three
	}
}

// A lineFinder finds agents' changed lines. It is safe for concurrent use.
type lineFinder struct {
	loader *loader.Loader
	draft  *store.Revision

	mu    sync.Mutex
	found map[string]string
}

// maxLines limits a difference's lines.
const maxLines = 3

// findLines returns the positions of an agent's lines that another revision does not have.
func (f *lineFinder) findLines(ctx context.Context, before *store.Revision, agent string) []string {
	if before == nil || agent == "" {
		return []string{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := before.ID + " " + agent
	found, ok := f.found[key]
	if !ok {
		found = strings.Join(changedLines(f.loader.Origins(ctx, before, agent), f.loader.Origins(ctx, f.draft, agent)), "\n")
		f.found[key] = found
	}
	if found == "" {
		return []string{}
	}
	return strings.Split(found, "\n")
}

// changedLines returns the positions of the lines that only the later origins have, or those that only
// the earlier ones have, which were removed.
func changedLines(before, after []*loader.Origin) []string {
	was, is := splitLines(before), splitLines(after)
	lines := missingLines(is, was)
	if len(lines) == 0 {
		for _, line := range missingLines(was, is) {
			lines = append(lines, line+" removed")
		}
	}
	return lines[:min(len(lines), maxLines)]
}

// A yamlLine is a line with where it was written.
type yamlLine struct{ text, at string }

func splitLines(origins []*loader.Origin) (lines []yamlLine) {
	for _, o := range origins {
		for line := range strings.Lines(o.YAML) {
			if i := strings.LastIndex(line, "# "); i >= 0 {
				lines = append(lines, yamlLine{strings.TrimSpace(line[:i]), strings.TrimSpace(line[i+2:])})
			}
		}
	}
	return lines
}

// missingLines returns the positions of the lines that the others do not have.
func missingLines(lines, others []yamlLine) (at []string) {
	for _, line := range lines {
		if !slices.ContainsFunc(others, func(o yamlLine) bool { return o.text == line.text }) && !slices.Contains(at, line.at) {
			at = append(at, line.at)
		}
	}
	return at
}

// HideValues removes what people and models wrote.
func (r *Report) HideValues() {
	for i := range r.Differences {
		r.Differences[i].Before, r.Differences[i].After = "", ""
	}
}

// CountWithout returns how many sessions differ in another way than this class.
func (r *Report) CountWithout(class Class) int { return len(r.Differences) - r.Counts[class] }
