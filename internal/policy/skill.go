package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HashSkill hashes a skill's files, by their paths: SHA-256 over the sorted paths and the hashes of
// the files.
func HashSkill(files map[string][]byte) string {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %x\n", path, sha256.Sum256(files[path]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// GrantSkill returns the sandbox for a skill's scripts with this hash, nil for the host's
// permissions. The error is a [*Refused].
func (p *Policy) GrantSkill(app, folder, hash string) (*Sandbox, error) {
	for i := 0; p != nil && i < len(p.grants); i++ {
		g := &p.grants[i]
		matches := func(s skillConfig) bool {
			return strings.Trim(s.Folder, "/") == folder && strings.EqualFold(strings.TrimPrefix(s.SHA256, "sha256:"), hash)
		}
		if g.appliesToApp(app) && slices.ContainsFunc(g.skills, matches) {
			return g.sandbox, nil
		}
	}
	return nil, p.newRefused(app, "run the scripts of the skill in "+folder, "", fmt.Sprintf("skills: [{folder: %s, sha256: %s}], sandbox: {}", strings.Trim(quoteYAMLList(folder), "[]"), hash))
}
