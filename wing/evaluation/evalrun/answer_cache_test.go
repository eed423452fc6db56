package evalrun

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
)

func openTestCache(t *testing.T, dir string, now func() time.Time) *AnswerCache {
	t.Helper()
	c, err := OpenAnswerCache(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An answer is found until it is 30 days old; each use after a day renews its time.
func TestAnswerAge(t *testing.T) {
	now := time.Now()
	c := openTestCache(t, filepath.Join(t.TempDir(), "cache"), func() time.Time { return now })
	key := hashStrings("a")
	c.putAnswer(key, "yes")
	for range 3 {
		now = now.Add(29 * 24 * time.Hour)
		if got, ok := c.getAnswer(key); got != "yes" || !ok {
			t.Fatalf("getAnswer = %q, %v, want yes", got, ok)
		}
	}
	now = now.Add(31 * 24 * time.Hour)
	if got, ok := c.getAnswer(key); ok {
		t.Errorf("getAnswer = %q after 31 days, want none", got)
	}
}

// A file that is damaged, too large, or written for another version or key counts as missing,
// and is written again.
func TestAnswerDamaged(t *testing.T) {
	dir := t.TempDir()
	c := openTestCache(t, dir, nil)
	defer c.Close()
	key := hashStrings("a")
	file := filepath.Join(dir, filepath.FromSlash(filePath(key)))
	for name, text := range map[string]string{
		"cut off":      `{"version":1,"key":"` + key,
		"empty":        ``,
		"no answer":    `{"version":1,"key":"` + key + `"}`,
		"newer":        `{"version":2,"key":"` + key + `","answer":"x"}`,
		"another key":  `{"version":1,"key":"` + hashStrings("b") + `","answer":"x"}`,
		"large":        `{"version":1,"key":"` + key + `","answer":"` + strings.Repeat("x", 2*maxAnswer) + `"}`,
		"not an entry": `[1]`,
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.getAnswer(key); ok {
			t.Errorf("%s: getAnswer = %.20q, want none", name, got)
		}
		c.putAnswer(key, "yes")
		if got, ok := c.getAnswer(key); got != "yes" || !ok {
			t.Errorf("%s: getAnswer = %.20q, %v after putAnswer, want yes", name, got, ok)
		}
	}
	c.putAnswer(hashStrings("c"), strings.Repeat("x", maxAnswer+1))
	if _, ok := c.getAnswer(hashStrings("c")); ok {
		t.Error("a large answer is cached")
	}
}

// A file outside the folder is not read, whatever link leads there.
func TestAnswerLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	key := hashStrings("a")
	name := filepath.FromSlash(filePath(key))
	other := openTestCache(t, outside, nil)
	other.putAnswer(key, "yes")
	other.Close()
	if err := os.Symlink(filepath.Join(outside, filepath.Dir(name)), filepath.Join(dir, filepath.Dir(name))); err != nil {
		t.Fatal(err)
	}
	c := openTestCache(t, dir, nil)
	defer c.Close()
	if got, ok := c.getAnswer(key); ok {
		t.Errorf("getAnswer = %q, want none from outside of the folder", got)
	}
}

// Closing deletes old answers, abandoned temporary files and, beyond the byte limit, the
// oldest answers.
func TestAnswerPrune(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	c := openTestCache(t, dir, func() time.Time { return now })
	text := strings.Repeat("x", maxAnswer-1)
	const many = maxAnswerBytes/maxAnswer + 10
	setTime := func(name string, age time.Duration) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(dir, filepath.FromSlash(name)), now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		c.putAnswer(hashStrings(fmt.Sprint(i)), text)
		setTime(filePath(hashStrings(fmt.Sprint(i))), time.Duration(i)*time.Minute)
	}
	c.putAnswer(hashStrings("old"), "yes")
	setTime(filePath(hashStrings("old")), 31*24*time.Hour)
	temp := filePath(hashStrings("old")) + ".1.1" + tempSuffix
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(temp)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	setTime(temp, 2*time.Hour)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = openTestCache(t, dir, func() time.Time { return now })
	defer c.Close()
	files, err := c.listFiles()
	size := int64(0)
	for _, f := range files {
		size += f.size
	}
	if err != nil || size > maxAnswerBytes || size < maxAnswerBytes-2*maxAnswer {
		t.Errorf("%d bytes in %d files, %v, want at most %d", size, len(files), err, maxAnswerBytes)
	}
	for key, want := range map[string]bool{"0": true, "200": true, fmt.Sprint(many - 1): false, "old": false} {
		if _, ok := c.getAnswer(hashStrings(key)); ok != want {
			t.Errorf("answer %s is cached: %v, want %v", key, ok, want)
		}
	}
}

// Processes that write the same answers at the same time disturb neither each other nor
// readers.
func TestAnswerParallel(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, err := OpenAnswerCache(dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 100 {
				key := hashStrings(fmt.Sprint(i % 10))
				c.putAnswer(key, strings.Repeat("yes ", 1000))
				if got, ok := c.getAnswer(key); !ok || len(got) != 4000 {
					t.Errorf("getAnswer = %d bytes, %v, want 4000", len(got), ok)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// judgeCase answers prompts as a case run does.
func judgeCase(t *testing.T, c *AnswerCache, llm model.LLM, number int) (*cachedJudge, *usageMeter) {
	t.Helper()
	r := &Runner{Cache: c, Fingerprints: map[string]string{"critic": "f"}}
	run := &caseRun{models: Models{"critic": llm}, answers: r.newCaseAnswers(number)}
	j, err := run.openJudge(t.Context(), &eval.JudgeOptions{Model: "critic"})
	if err != nil {
		t.Fatal(err)
	}
	return j.(*cachedJudge), &run.judgeUsage
}

// countingModel answers with the call's number; some calls fail.
type countingModel struct {
	model.LLM
	calls int
	fails bool
}

func (m *countingModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		m.calls++
		if m.fails {
			yield(nil, errors.New("busy"))
			return
		}
		yield(&model.Response{Content: genai.NewContentFromText(fmt.Sprint("answer ", m.calls), "model")}, nil)
	}
}

func (m *countingModel) Name() string { return "critic" }

func answerAll(t *testing.T, j *cachedJudge, want ...string) {
	t.Helper()
	for i, w := range want {
		if got, err := j.Answer(t.Context(), "prompt"); got != w || err != nil {
			t.Errorf("answer %d = %q, %v, want %q", i+1, got, err, w)
		}
	}
}

// Each sample for a prompt, and each run of a case, has its own answer. A later run of the
// same case gets the same answers without a call. Failed requests and answers that could not
// be read are not cached.
func TestCachedSamples(t *testing.T) {
	c := openTestCache(t, t.TempDir(), nil)
	defer c.Close()
	llm := &countingModel{}
	first, _ := judgeCase(t, c, llm, 0)
	answerAll(t, first, "answer 1", "answer 2", "answer 3")
	first.RejectAnswer("prompt", "answer 2")
	first.answers.commitAnswers()
	other, _ := judgeCase(t, c, llm, 1)
	answerAll(t, other, "answer 4")

	again, usage := judgeCase(t, c, llm, 0)
	llm.fails = true
	answerAll(t, again, "answer 1")
	if _, err := again.Answer(t.Context(), "prompt"); err == nil {
		t.Error("the rejected answer is cached")
	}
	llm.fails = false
	answerAll(t, again, "answer 6", "answer 3")
	if u := usage.usageOrNil(); u.Calls != 1 || u.CachedAnswers != 2 {
		t.Errorf("usage = %+v, want 1 call and 2 cached answers", u)
	}
	again.RejectAnswer("prompt", "answer 1")
	again.answers.commitAnswers()
	if third, _ := judgeCase(t, c, llm, 0); third != nil {
		answerAll(t, third, "answer 7", "answer 6", "answer 3")
	}
}
