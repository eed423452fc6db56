package loader

import "agenthost/pkg/spec"

// readFiles gives a config the texts of the files that it names, and says
// whether it names none.
func (j *job) readFiles(config any, ds *spec.Diagnostics) (alone bool) {
	alone = true
	if c, ok := config.(interface {
		ReadFiles(read func(path string) (string, error)) spec.Diagnostics
	}); ok {
		*ds = append(*ds, c.ReadFiles(func(path string) (string, error) {
			alone = false
			return j.src.text(path)
		})...)
	}
	return alone
}

// checkSecrets reports secrets that stand where they would be shown. It is
// asked when all documents were decoded.
func (j *job) checkSecrets() {
	if j.ds.HasErrors() {
		return // what was not decoded has read no secret
	}
	for _, root := range j.src.roots {
		j.report(spec.CheckSecrets(root)...)
	}
}
