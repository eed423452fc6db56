package doctor

import (
	"context"
	"fmt"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// CheckApps loads the apps in folders. newLoader returns a loader with the host's options, and with the function for
// models without keys.
func (r *Report) CheckApps(ctx context.Context, dirs []string, newLoader func(missing func(app string, use loader.ModelUse, d spec.Diagnostic)) *loader.Loader) {
	before := len(r.Findings)
	apps, missing := 0, []Finding{}
	load := newLoader(func(app string, use loader.ModelUse, d spec.Diagnostic) {
		missing = append(missing, Finding{"models", Warning, "app " + app + ": " + d.Message, d.Hint})
	})
	for _, dir := range dirs {
		found, err := loader.Discover(dir)
		if err != nil {
			r.addError("apps", err.Error(), "check the folder and its permissions")
			continue
		}
		for _, one := range found {
			apps++
			app, ds := load.Load(ctx, one)
			if app != nil {
				app.Close()
				continue
			}
			first := ""
			for _, d := range ds {
				if d.Severity == spec.Error && first == "" {
					first = fmt.Sprintf("%s: %s", d.Pos, d.Message)
				}
			}
			r.addError("apps", "app "+loader.AppName(one)+" has problems, the first at "+first, "run agenthost check "+one)
		}
	}
	allLoad := len(r.Findings) == before
	switch {
	case allLoad && apps == 0:
		r.addWarning("apps", "no folder has an app", "create one with agenthost new, or name other folders")
	case allLoad:
		r.addOK("apps", "%d of %d apps load", apps, apps)
	}
	if r.Findings = append(r.Findings, missing...); allLoad && apps > 0 && len(missing) == 0 {
		r.addOK("models", "each model has the keys that it needs")
	}
}
