package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agenthost/pkg/loader"
)

// DiscoverApps finds the apps in the folders; a folder without apps is an error.
func DiscoverApps(dirs []string) ([]string, error) {
	var apps []string
	for _, dir := range dirs {
		if err := CheckFolder(dir); err != nil {
			return nil, err
		}
		found, err := loader.Discover(dir)
		if err != nil {
			return nil, FailWith(err)
		}
		if len(found) == 0 {
			return nil, NoAppError(dir)
		}
		apps = append(apps, found...)
	}
	return apps, nil
}

// CheckApp returns an error unless the folder is exactly one app.
func CheckApp(dir string) error {
	apps, err := DiscoverApps([]string{dir})
	if err == nil && apps[0] != dir {
		return FailWithf("%s contains several apps: name one of them, such as %s", dir, apps[0])
	}
	return err
}

// CheckFolders returns an error for the first folder that does not exist.
func CheckFolders(dirs []string) error {
	for _, dir := range dirs {
		if err := CheckFolder(dir); err != nil {
			return err
		}
	}
	return nil
}

// CheckFolder returns an error unless dir is an existing folder.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return FailWithf("folder %s not found", dir)
	case err != nil:
		return FailWith(err)
	case !info.IsDir():
		return FailWithf("%s is a file: use the app's folder, %s", dir, filepath.Dir(dir))
	}
	return nil
}

// NoAppError reports that a folder contains no app, and names a file that may be
// misnamed.
func NoAppError(dir string) error {
	if file, name := loader.FindMisnamed(dir); file != "" {
		return FailWithf("no app found in %s: rename %s to %s", dir, file, name)
	}
	return FailWithf("no app found in %s: an app is a folder with a root_agent.yaml or an app.yaml", dir)
}
