package revisions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The texts in a response are bounded by file, in total and by number, and each omission has its
// reason.
func TestFileChangesBounded(t *testing.T) {
	long := []byte(strings.Repeat("a", maxFileText+1))
	before := map[string][]byte{"binary": {0xff}, "gone": []byte("x")}
	after := map[string][]byte{"binary": {0xfe}, "long": long, "new": []byte("y")}
	all, more := listFileChanges([]string{"binary", "gone", "long", "new"}, before, after)
	want := []FileChange{
		{Name: "binary", Kind: "changed", Omitted: "not a text file"},
		{Name: "gone", Kind: "removed", Before: "x"},
		{Name: "long", Kind: "added", Omitted: "larger than 128 KiB"},
		{Name: "new", Kind: "added", After: "y"},
	}
	if !slices.Equal(all, want) || more != 0 {
		t.Errorf("changes = %+v and %d more, want %+v", all, more, want)
	}

	files, names := map[string][]byte{}, []string{}
	for i := range maxFiles + 7 {
		name := fmt.Sprintf("f%04d", i)
		names = append(names, name)
		files[name] = long[:maxFileText/2]
	}
	all, more = listFileChanges(names, nil, files)
	total := 0
	for _, c := range all {
		total += len(c.After)
	}
	if len(all) != maxFiles || more != 7 || total > maxFileTexts || all[len(all)-1].Omitted == "" {
		t.Errorf("%d files with %d bytes and %d more", len(all), total, more)
	}
}
