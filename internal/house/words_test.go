package house_test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bannedWord is a pattern that no line in code, messages or pages matches: these words hide what a
// sentence is about, or the field has its own word. Identifiers are split into words before the
// match.
type bannedWord struct {
	pattern string
	instead string
	allowed string // its matches do not match pattern; empty for none
}

var bannedWords = []bannedWord{
	{`(?i)\b(told|tells?|telling|teller)\b`, "report, log, print, show", `(?i)\btell (me|us|the user|the customer|them|him|her)\b`},
	{`(?i)\b(says?|said|saying)\b`, "report, state, return", `\bSay\b|\] said:`},
	{`(?i)\b(hears?|heard|hearing)\b`, "receive, be notified", ``},
	{`(?i)\b(nobody|somebody|whoever)\b`, "no one, a user, anyone who", ``},
	{`(?i)\banew\b`, "again", ``},
	{`(?i)\bbeside\b`, "next to, with", ``},
	{`(?i)\bbehind\b`, "after", `(?i)\bbehind (an? |the |its |one |your |any |another |some )?([a-z-]+ )?(proxy|proxies|balancers?|pooler|pg ?bouncer|nginx|haproxy|ingress|gateway|nat|flag|interface|service|firewall)\b|\b(falls?|fell|fallen|falling|lags?|lagging) behind\b|\b(left|leaves?|leaving)( [a-z]+){0,3} behind\b`},
	{`(?i)\b(stands?|stood|standing)\b`, "is, appears, is declared", `(?i)\bstands? for\b`},
	{`(?i)\bmend(s|ed|ing)?\b`, "repair, fix", ``},
	{`(?i)\bin the place of\b|\bin (its|their|his) place\b|\btakes? (its|their|the) place\b`, "instead of, replace", ``},
	{`(?i)\bbeliev(e|es|ed|ing)\b`, "accept, trust", ``},
	{`(?i)\bbe had\b`, "be available", ``},
	{`(?i)\bfor ever\b`, "forever, without end", ``},
	{`(?i)\b(is|are|was|were|be|been|being) (not )?(asked|looked at)\b`, "is called, is read", ``},
	{`(?i)\b(broke|breaks?|broken|breaking) down\b`, "panicked, failed", ``},
	{`(?i)\b(go|goes|went|going|gone) on\b`, "continue", ``},
	{`(?i)\bpieces?\b`, "chunk, part", ``},
	{`(?i)\bnowhere\b`, "not anywhere", ``},
	{`(?i)\b(is|are|was|were) no [a-z]`, "is not a", `(?i)\bthere (is|are|was|were) no\b|\b(is|are|was|were) no (longer|more|less|fewer|different|better|worse|greater|larger|newer|older|one)\b`},
	{`(?i)\ba text\b`, "a string, text", `(?i)\ba text (file|part|message|editor|chunk|response|field|event|frame|node|answer|block|column|area|format|template|delta|box|input)s?\b`},
	{`(?i)\b[0-9,]+ letters\b`, "characters", ``},
	{`(?i)\bso many\b|\bthis often\b|\bthis long\b`, "N, at most N, for N", ``},
	{`(?i)\b(upon|lest|hence|thereof|whence|whereby|in vain|at hand)\b`, "on, so, with which", ``},
	{`(?i)\b(lets?|takes?|took|taken|letting|taking) in\b|\bgoes live with\b`, "load, reload, publish", ``},
	{`(?i)\b(is|are) well\b`, "is healthy", `(?i)\b(is|are) well (known|formed|defined|below|above|under|within)\b`},
	{`(?i)\b(knows|forgets|remembers|believes|wants)\b`, "has, keeps, stores, needs", `(?i)\b(who|user|caller|client|reader|one|anyone|operator|person|author) wants\b`},
	{`(^|//|[.;]) *(What|Who|Whom) [a-z][^?|]*$`, "a noun as the subject", ``},
}

// wordExceptions are lines that need a banned word: other people's texts, and what people and
// models say in conversations.
var wordExceptions = []struct{ path, line, reason string }{
	{"internal/house/words_test.go", ``, "the list of these words"},
	{"CONTRIBUTING.md", "| ", "the glossary lists the verbs that are not used"},
	{"deploy/agenthost.service", "Wants=", "a key of systemd"},
	{"pkg/server/corpus_apps_test.go", "tool %s said %s", "the model of the recorded servers"},
	{"pkg/server/corpus_apps_test.go", "Says hello.", "the model of the recorded servers"},
	{"testdata/rest/adk-go.txt", " said ", "recorded by adk-go"},
	{"testdata/rest/adk-js.txt", " said ", "recorded by adk-js"},
	{"liveness_lock_linux.go", "Whence:", "a field of package syscall"},
	{"editors/vscode/src/previews.js", "ViewColumn.Beside", "a constant of VS Code"},
	{"internal/testdb/pooler.go", "user = nobody", "a setting of PgBouncer"},
}

var (
	wordFiles   = []string{".go", ".md", ".txtar", ".yaml", ".yml", ".html", ".js", ".mjs", ".css", ".sh", ".json", ".txt", ".service"}
	notOurWords = []string{"node_modules", ".bundle", "screenshots", "dist", ".git", "bin", "fuzz", "package-lock.json", "licenses.txt"}
)

// TestBannedWords: every text in the repository is in plain English, in the field's terms.
func TestBannedWords(t *testing.T) {
	rules := make([]struct{ banned, allowed *regexp.Regexp }, len(bannedWords))
	for i, b := range bannedWords {
		rules[i].banned = regexp.MustCompile(b.pattern)
		if b.allowed != "" {
			rules[i].allowed = regexp.MustCompile(b.allowed)
		}
	}
	patterns := make([]string, len(bannedWords))
	for i, b := range bannedWords {
		patterns[i] = "(?:" + b.pattern + ")"
	}
	anyBanned := regexp.MustCompile(strings.Join(patterns, "|"))
	used := make([]bool, len(wordExceptions))
	check := func(file string, number int, line string) {
		words := splitIdentifiers(line)
		if !anyBanned.MatchString(words) {
			return
		}
		for i, rule := range rules {
			rest := words
			if rule.allowed != nil {
				rest = rule.allowed.ReplaceAllString(words, " ")
			}
			found := rule.banned.FindString(rest)
			if found == "" || isWordException(file, line, used) {
				continue
			}
			t.Errorf("%s:%d: %q: write %s\n\t%s", file, number, strings.TrimSpace(found), bannedWords[i].instead, strings.TrimSpace(line))
		}
	}
	eachTextLine(t, check)
	for i, e := range wordExceptions {
		if !used[i] {
			t.Errorf("the exception for %s %q matches no line: remove it", e.path, e.line)
		}
	}
}

func isWordException(file, line string, used []bool) bool {
	for i, e := range wordExceptions {
		if strings.HasSuffix(file, e.path) && strings.Contains(line, e.line) {
			used[i] = true
			return true
		}
	}
	return false
}

func eachTextLine(t *testing.T, visit func(file string, number int, line string)) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(notOurWords, d.Name()) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() || !slices.Contains(wordFiles, filepath.Ext(path)) && d.Name() != "Makefile" && d.Name() != "Dockerfile" {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 4<<20)
		for number := 1; lines.Scan(); number++ {
			// An archive's files are data: apps, conversations, recorded events.
			if filepath.Ext(path) == ".txtar" && strings.HasPrefix(lines.Text(), "-- ") {
				return nil
			}
			visit(strings.TrimPrefix(filepath.ToSlash(path), root+"/"), number, lines.Text())
		}
		return lines.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	camelCase   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	underscores = strings.NewReplacer("_", " ")
)

// splitIdentifiers separates the words in identifiers: `writeErr` becomes `write Err`.
func splitIdentifiers(line string) string {
	return underscores.Replace(camelCase.ReplaceAllString(line, "$1 $2"))
}

// The control: each pattern finds its own example.
func TestBannedWordsControl(t *testing.T) {
	for line, want := range map[string]bool{
		"the model is told of it":      true,
		"func saidBy(name string)":     true,
		"behind a load balancer":       false,
		"the event behind it":          true,
		"// What is stored is checked": true,
		"there is no record":           false,
		"this is no record":            true,
		"`Say hello.`":                 false,
	} {
		got := false
		for _, b := range bannedWords {
			rest := splitIdentifiers(line)
			if b.allowed != "" {
				rest = regexp.MustCompile(b.allowed).ReplaceAllString(rest, " ")
			}
			got = got || regexp.MustCompile(b.pattern).MatchString(rest)
		}
		if got != want {
			t.Errorf("%q: banned is %v, want %v", line, got, want)
		}
	}
}
