package eval

import "strings"

// stemWord returns the stem of a lower-case ASCII word by Porter's algorithm with the
// extensions of NLTK, as rouge_score uses it.
func stemWord(word string) string {
	if stem, ok := irregularStem(word); ok {
		return stem
	}
	if len(word) <= 2 {
		return word
	}
	w := stemPlural(word)
	w = stemPast(w)
	w = stemY(w)
	w = stemDoubleSuffix(w)
	w = stemSuffix(w, stepThree)
	w = removeSuffix(w)
	return stemE(w)
}

func irregularStem(word string) (string, bool) {
	switch word {
	case "sky", "skies":
		return "sky", true
	case "dying":
		return "die", true
	case "lying":
		return "lie", true
	case "tying":
		return "tie", true
	case "news", "howe", "proceed", "exceed", "succeed", "inning", "outing", "canning":
		return word, true
	case "innings", "outings", "cannings":
		return word[:len(word)-1], true
	}
	return "", false
}

// isConsonantAfter reports whether c is a consonant, after a consonant or a vowel. A y is
// one at the start of a word and after a vowel.
func isConsonantAfter(c byte, start, consonant bool) bool {
	switch c {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return start || !consonant
	}
	return true
}

// isConsonant reports whether w[i] is a consonant.
func isConsonant(w string, i int) bool {
	if w[i] != 'y' {
		return isConsonantAfter(w[i], false, false)
	}
	consonant := false
	for k := range i + 1 {
		consonant = isConsonantAfter(w[k], k == 0, consonant)
	}
	return consonant
}

// countMeasure returns how often a consonant follows a vowel.
func countMeasure(w string) int {
	m, last := 0, true
	for i := range len(w) {
		consonant := isConsonantAfter(w[i], i == 0, last)
		if consonant && !last {
			m++
		}
		last = consonant
	}
	return m
}

func hasVowel(w string) bool {
	last := true
	for i := range len(w) {
		if last = isConsonantAfter(w[i], i == 0, last); !last {
			return true
		}
	}
	return false
}

// endsShort reports an ending of consonant, vowel, consonant other than w, x and y, or a
// word of a vowel and a consonant.
func endsShort(w string) bool {
	n := len(w)
	if n == 2 {
		return !isConsonant(w, 0) && isConsonant(w, 1)
	}
	return n >= 3 && isConsonant(w, n-3) && !isConsonant(w, n-2) && isConsonant(w, n-1) &&
		w[n-1] != 'w' && w[n-1] != 'x' && w[n-1] != 'y'
}

func endsDouble(w string) bool {
	n := len(w)
	return n >= 2 && w[n-1] == w[n-2] && isConsonant(w, n-1)
}

// stemPlural is step 1a.
func stemPlural(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) == 4:
		return w[:3]
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"):
		return w
	default:
		return strings.TrimSuffix(w, "s")
	}
}

// stemPast is step 1b.
func stemPast(w string) string {
	if stem, ok := strings.CutSuffix(w, "ied"); ok {
		if len(w) == 4 {
			return stem + "ie"
		}
		return stem + "i"
	}
	if stem, ok := strings.CutSuffix(w, "eed"); ok {
		if countMeasure(stem) > 0 {
			return stem + "ee"
		}
		return w
	}
	stem, ok := strings.CutSuffix(w, "ed")
	if !ok || !hasVowel(stem) {
		if stem, ok = strings.CutSuffix(w, "ing"); !ok || !hasVowel(stem) {
			return w
		}
	}
	return repairStem(stem)
}

// repairStem completes a word without its ed or ing.
func repairStem(w string) string {
	switch last := w[len(w)-1]; {
	case strings.HasSuffix(w, "at"), strings.HasSuffix(w, "bl"), strings.HasSuffix(w, "iz"):
		return w + "e"
	case endsDouble(w):
		if last == 'l' || last == 's' || last == 'z' {
			return w
		}
		return w[:len(w)-1]
	case countMeasure(w) == 1 && endsShort(w):
		return w + "e"
	}
	return w
}

// stemY is step 1c.
func stemY(w string) string {
	if stem, ok := strings.CutSuffix(w, "y"); ok && len(stem) > 1 && isConsonant(stem, len(stem)-1) {
		return stem + "i"
	}
	return w
}

// A suffixRule replaces a suffix.
type suffixRule struct{ suffix, replacement string }

var stepTwo = []suffixRule{
	{"ational", "ate"},
	{"tional", "tion"},
	{"enci", "ence"},
	{"anci", "ance"},
	{"izer", "ize"},
	{"bli", "ble"},
	{"alli", "al"},
	{"entli", "ent"},
	{"eli", "e"},
	{"ousli", "ous"},
	{"ization", "ize"},
	{"ation", "ate"},
	{"ator", "ate"},
	{"alism", "al"},
	{"iveness", "ive"},
	{"fulness", "ful"},
	{"ousness", "ous"},
	{"aliti", "al"},
	{"iviti", "ive"},
	{"biliti", "ble"},
	{"fulli", "ful"},
}

var stepThree = []suffixRule{
	{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
}

var stepFour = []string{
	"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion",
	"ou", "ism", "ate", "iti", "ous", "ive", "ize",
}

// stemDoubleSuffix is step 2.
func stemDoubleSuffix(w string) string {
	if stem, ok := strings.CutSuffix(w, "alli"); ok && countMeasure(stem) > 0 {
		return stemDoubleSuffix(stem + "al")
	}
	if stem, ok := strings.CutSuffix(w, "logi"); ok {
		if countMeasure(w[:len(w)-3]) > 0 {
			return stem + "log"
		}
		return w
	}
	return stemSuffix(w, stepTwo)
}

// stemSuffix applies the first rule whose suffix w has, if the rest has a measure.
func stemSuffix(w string, rules []suffixRule) string {
	for _, r := range rules {
		if stem, ok := strings.CutSuffix(w, r.suffix); ok {
			if countMeasure(stem) > 0 {
				return stem + r.replacement
			}
			return w
		}
	}
	return w
}

// removeSuffix is step 4.
func removeSuffix(w string) string {
	for _, suffix := range stepFour {
		stem, ok := strings.CutSuffix(w, suffix)
		if !ok {
			continue
		}
		if countMeasure(stem) > 1 && (suffix != "ion" || strings.HasSuffix(stem, "s") || strings.HasSuffix(stem, "t")) {
			return stem
		}
		return w
	}
	return w
}

// stemE is step 5.
func stemE(w string) string {
	if stem, ok := strings.CutSuffix(w, "e"); ok {
		if m := countMeasure(stem); m > 1 || m == 1 && !endsShort(stem) {
			w = stem
		}
	}
	if strings.HasSuffix(w, "ll") && countMeasure(w[:len(w)-1]) > 1 {
		w = w[:len(w)-1]
	}
	return w
}
