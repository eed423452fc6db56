package loader

import "agenthost/pkg/spec"

// readConfigFiles gives a config the texts of the files that it names, and says
// whether it names none.
func (j *job) readConfigFiles(config any, ds *spec.Diagnostics) (selfContained bool) {
	selfContained = true
	if c, ok := config.(interface {
		ReadFiles(read func(path string) (string, error)) spec.Diagnostics
	}); ok {
		*ds = append(*ds, c.ReadFiles(func(path string) (string, error) {
			selfContained = false
			return j.src.readTextFile(path)
		})...)
	}
	return selfContained
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
