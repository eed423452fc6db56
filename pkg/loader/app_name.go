package loader

import "fmt"

// CheckAppName returns an error if the name of a folder is not a valid app name.
// The folder need not exist.
func CheckAppName(dir string) error {
	ds := (*Loader)(nil).checkAppName(&source{name: AppName(dir), displayDir: dir})
	if err := ds.Err(); err != nil {
		return fmt.Errorf("%w: %s", err, ds[0].Hint)
	}
	return nil
}
