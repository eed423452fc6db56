package loader

import "fmt"

// CheckAppName says why a folder, which need not be there, cannot be an app's
// by its name; nil when it can.
func CheckAppName(dir string) error {
	ds := (*Loader)(nil).checkAppName(&source{name: AppName(dir), displayDir: dir})
	if err := ds.Err(); err != nil {
		return fmt.Errorf("%w: %s", err, ds[0].Hint)
	}
	return nil
}
