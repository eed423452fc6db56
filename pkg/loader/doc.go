// Package loader turns folders of YAML into apps, and keeps a host's apps as
// the folders say. From file to app, in order:
//
//  1. [Discover] finds app folders: those with a root_agent.yaml or an app.yaml.
//  2. Files are read through the app's [os.Root]: nothing outside of the
//     folder can be reached.
//  3. ${env:…} values are filled in; each node keeps its place.
//  4. Nodes are decoded into the config structs of agents, tools and models.
//  5. References are followed: config_path, use, models.
//  6. Rules look at the whole: names, cycles, what is never used.
//  7. Models, tools and agents are built, leaves first, into a [runtime.App].
//
// Whatever is wrong on the way is a [spec.Diagnostic]; all of them are
// reported at once, and with an error among them there is no app. The same
// path serves check, run, serve and reload; [Watch] only decides when.
package loader
