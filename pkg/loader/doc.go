// Package loader builds apps from folders of YAML, and keeps the apps of a host in
// sync with the folders. From file to app, in order:
//
//  1. [Discover] finds app folders: those with a root_agent.yaml or an app.yaml.
//  2. Files are read through the app's [os.Root]: files outside of the folder
//     are not accessible.
//  3. ${env:…} references are resolved; each node keeps its position.
//  4. Nodes are decoded into the config structs of agents, tools and models.
//  5. References are followed: config_path, use, models.
//  6. Rules check the whole app: names, cycles, unused parts.
//  7. Models, tools and agents are built, leaves first, into a [runtime.App].
//
// Every problem is a [spec.Diagnostic]; all of them are reported at once, and an
// error among them means that no app is built. check, run, serve and reload share
// this path; [Watch] only decides when to load.
package loader
