{{/*
Every template begins with this. It gives missing values their defaults: null removes a value, and `--reuse-values` keeps those of
an older chart.
*/}}
{{- define "wasm-serve.values" -}}
{{- include "wasm-serve.prune" (omit .Values "global") -}}
{{- include "wasm-serve.fill" (list .Values (.Files.Get "files/defaults.json" | fromJson)) -}}
{{- include "wasm-serve.check" . -}}
{{- end -}}

{{/* Removes what is null in an object or list: Helm 4 passes on a null of an older release, and an API server takes some as 0. */}}
{{- define "wasm-serve.prune" -}}
{{- $value := . -}}
{{- if kindIs "map" $value -}}
{{- range $key, $each := $value -}}
{{- if kindIs "invalid" $each -}}{{- $_ := unset $value $key -}}{{- else -}}{{- include "wasm-serve.prune" $each -}}{{- end -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $value -}}{{- include "wasm-serve.prune" . -}}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "wasm-serve.fill" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if kindIs "map" $default -}}
{{- if not (kindIs "map" (index $values $key)) -}}{{- $_ := set $values $key dict -}}{{- end -}}
{{- include "wasm-serve.fill" (list (index $values $key) $default) -}}
{{- else if kindIs "invalid" (index $values $key) -}}
{{- $_ := set $values $key $default -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses values that fit the schema, and that a pod could not start with. */}}
{{- define "wasm-serve.check" -}}
{{- include "wasm-serve.refusePassword" (list "plugin" .Values.plugin) -}}
{{- include "wasm-serve.refusePassword" (list "config" .Values.config) -}}
{{- if contains "@" .Values.fleet.url -}}
{{- fail "fleet.url: the URL has a user or a password, which belong into a Secret: use fleet.existingSecret" -}}
{{- end -}}
{{- $port := include "wasm-serve.port" . | int64 -}}
{{- if eq $port (int64 .Values.probes.port) -}}{{- fail (printf "probes.port: %d is config.port already" $port) -}}{{- end -}}
{{- if and .Values.admin.enabled (has (int64 .Values.admin.port) (list $port (int64 .Values.probes.port))) -}}
{{- fail (printf "admin.port: %v is config.port or probes.port already" .Values.admin.port) -}}
{{- end -}}
{{- if regexMatch "^(127[.]|localhost$|::1$)" .Values.config.host -}}
{{- fail (printf "config.host: %s is not reachable for the kubelet and for clients" .Values.config.host) -}}
{{- end -}}
{{- $asks := or (has "IPv6" .Values.service.ipFamilies) (contains "DualStack" .Values.service.ipFamilyPolicy) -}}
{{- if and $asks (not (contains ":" .Values.config.host)) -}}
{{- fail (printf "config.host: %s has no IPv6, which service.ipFamilies or service.ipFamilyPolicy asks for: use ::" .Values.config.host) -}}
{{- end -}}
{{- if and (eq .Values.service.type "ClusterIP") (or .Values.service.nodePort .Values.service.externalTrafficPolicy) -}}
{{- fail "service.nodePort and service.externalTrafficPolicy need the type NodePort or LoadBalancer" -}}
{{- end -}}
{{- if and (ne .Values.service.type "LoadBalancer") (or .Values.service.loadBalancerClass .Values.service.loadBalancerSourceRanges) -}}
{{- fail "service.loadBalancerClass and service.loadBalancerSourceRanges need the type LoadBalancer" -}}
{{- end -}}
{{- if and .Values.registryCredentials.existingSecret .Values.registryCredentials.helpers -}}
{{- fail "registryCredentials: use existingSecret or helpers; a Secret can have credHelpers, too" -}}
{{- end -}}
{{- $config := .Values.config -}}
{{- if and (eq (toString $config.requireSignatures) "true") (not $config.trust) (contains "oci://" (include "wasm-serve.sources" .)) -}}
{{- fail "config.trust: config.requireSignatures needs to know who signs the plug-ins of the registry" -}}
{{- end -}}
{{- end -}}

{{/* A password in a URL is rendered in clear text, unless it is a variable. */}}
{{- define "wasm-serve.refusePassword" -}}
{{- $path := index . 0 -}}
{{- $value := index . 1 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $each := $value -}}{{- include "wasm-serve.refusePassword" (list (printf "%s.%s" $path $key) $each) -}}{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $index, $each := $value -}}{{- include "wasm-serve.refusePassword" (list (printf "%s[%d]" $path $index) $each) -}}{{- end -}}
{{- else if kindIs "string" $value -}}
{{- if regexMatch "://([^/?#@\\s$]|[$][^{/?#@\\s])+@" $value -}}
{{- fail (printf "%s: the URL has a user or a password, which belong into a Secret: write a variable, such as ${PASSWORD}, and name the Secret in envFrom" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where plug-ins come from, and what else the configuration names, as one text. */}}
{{- define "wasm-serve.sources" -}}
{{- printf "%s %s" .Values.plugin (toRawJson .Values.config) -}}
{{- end -}}

{{- define "wasm-serve.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the suffixes of other objects. Names of Services are stricter than those of releases, which may have dots. */}}
{{- define "wasm-serve.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}{{- $name = .Release.Name -}}{{- else -}}{{- $name = printf "%s-%s" .Release.Name $name -}}{{- end -}}
{{- $name = default ($name | replace "." "-") .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*[a-z0-9]$|^[a-z]$" $name) -}}
{{- fail (printf "fullnameOverride: set a name of a-z, 0-9 and -, beginning with a letter: %q cannot be that of a Service" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* Labels by which pods are found. They never change. */}}
{{- define "wasm-serve.selectorLabels" -}}
app.kubernetes.io/name: {{ include "wasm-serve.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: server
{{- end -}}

{{/* Labels of the pod of `helm test`. */}}
{{- define "wasm-serve.testLabels" -}}
{{- dict "app.kubernetes.io/component" "test" | mergeOverwrite (include "wasm-serve.selectorLabels" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* Labels of all objects. */}}
{{- define "wasm-serve.labels" -}}
{{- include "wasm-serve.labelsWith" (list . dict) -}}
{{- end -}}

{{/* Labels of all objects, and further ones, which win over `commonLabels`: no key is there twice. */}}
{{- define "wasm-serve.labelsWith" -}}
{{- $ := index . 0 -}}
{{- $chart := printf "%s-%s" $.Chart.Name $.Chart.Version | include "wasm-serve.labelValue" -}}
{{- $release := dict "app.kubernetes.io/managed-by" $.Release.Service "helm.sh/chart" $chart -}}
{{- merge (include "wasm-serve.podLabels" . | fromYaml) $release | toYaml -}}
{{- end -}}

{{/* The same without those that change with each version of the chart, which would replace the pods. */}}
{{- define "wasm-serve.podLabels" -}}
{{- $ := index . 0 -}}
{{- $version := dict "app.kubernetes.io/version" (include "wasm-serve.labelValue" $.Chart.AppVersion) -}}
{{- merge (include "wasm-serve.selectorLabels" $ | fromYaml) (index . 1 | default dict) (default dict $.Values.commonLabels) $version | toYaml -}}
{{- end -}}

{{/* A version as a value that a label may have. Flux adds the digest of the chart after a "+". */}}
{{- define "wasm-serve.labelValue" -}}
{{- . | replace "+" "_" | trunc 63 | trimAll "-_." -}}
{{- end -}}

{{- define "wasm-serve.serviceAccountName" -}}
{{- default (ternary (include "wasm-serve.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "wasm-serve.image" -}}
{{- with .Values.image -}}
{{- $repository := .repository -}}
{{- with $.Values.global.imageRegistry | default .registry -}}
{{- /* The first part of a name is a registry if it looks like a host. */ -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- if .digest -}}{{ $repository }}@{{ .digest }}
{{- else -}}{{ $repository }}:{{ default ($.Chart.AppVersion | replace "+" "_") .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The field imagePullSecrets of a pod; empty: none. */}}
{{- define "wasm-serve.pullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (default list .Values.global.imagePullSecrets) (default list .Values.imagePullSecrets) -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with $secrets | uniq -}}imagePullSecrets: {{- toYaml . | nindent 2 }}{{- end -}}
{{- end -}}

{{/* Numbers of `--set` and of files have different types. */}}
{{- define "wasm-serve.number" -}}
{{- $value := index . 1 -}}
{{- if or (kindIs "string" $value) (kindIs "invalid" $value) -}}
{{- fail (printf "config.%s must be a number here: the chart computes with it" (index . 0)) -}}
{{- end -}}
{{- int64 $value -}}
{{- end -}}

{{- define "wasm-serve.port" -}}
{{- include "wasm-serve.number" (list "port" .Values.config.port) -}}
{{- end -}}

{{/* The address of the probes, on the host of the configuration. */}}
{{- define "wasm-serve.probes" -}}
{{- $host := .Values.config.host -}}
{{- if or (not $host) (contains "${" $host) -}}{{ fail "config.host must be an address here: it becomes a variable itself" }}{{- end -}}
{{- printf "%s:%d" (ternary (printf "[%s]" $host) $host (contains ":" $host)) (int64 .Values.probes.port) -}}
{{- end -}}

{{- define "wasm-serve.scheme" -}}
{{- if or .Values.tls.existingSecret .Values.config.tls -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* Seconds until the kubelet kills. The 5 are for ending threads and writing the last log lines. */}}
{{- define "wasm-serve.terminationGracePeriod" -}}
{{- if .Values.terminationGracePeriodSeconds -}}
{{- int64 .Values.terminationGracePeriodSeconds -}}
{{- else -}}
{{- $drain := include "wasm-serve.number" (list "drainMs" .Values.config.drainMs) | int64 -}}
{{- $grace := include "wasm-serve.number" (list "graceMs" .Values.config.graceMs) | int64 -}}
{{- add (div (add $drain $grace 999) 1000) 5 -}}
{{- end -}}
{{- end -}}

{{/* A quantity of Kubernetes, such as 512Mi, in MiB. */}}
{{- define "wasm-serve.mebibytes" -}}
{{- $text := kindIs "string" . | ternary . (printf "%d" (int64 .)) -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- $factors := dict "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "" 1.0 -}}
{{- if or (eq $number "") (not (hasKey $factors $unit)) -}}
{{- fail (printf "resources.limits.memory: %q is not a number with Ki, Mi, Gi, Ti, k, M, G or T" $text) -}}
{{- end -}}
{{- divf (mulf (float64 $number) (get $factors $unit)) 1048576.0 | floor | int64 -}}
{{- end -}}

{{/* The number of processes of Node.js: the primary and the serving processes, or one. */}}
{{- define "wasm-serve.processes" -}}
{{- $processes := .Values.config.processes -}}
{{- if not $processes -}}1
{{- else if kindIs "string" $processes -}}
{{- fail "config.processes: with a memory limit, set a number, or heapMiB and no limit: the limit is divided among the processes" -}}
{{- else -}}{{ add (int64 $processes) 1 }}
{{- end -}}
{{- end -}}

{{/* The memory limit of the container in MiB; empty: none. */}}
{{- define "wasm-serve.memoryMiB" -}}
{{- with ((.Values.resources | default dict).limits | default dict).memory -}}{{ include "wasm-serve.mebibytes" . }}{{- end -}}
{{- end -}}

{{/* The heap of a process in MiB; empty: Node.js decides. Half of the memory is for guests, compiled code and buffers. */}}
{{- define "wasm-serve.heapMiB" -}}
{{- $memory := include "wasm-serve.memoryMiB" . -}}
{{- if .Values.heapMiB -}}{{ int64 .Values.heapMiB }}
{{- else if $memory -}}{{ max 32 (div (int64 $memory) (mul 2 (include "wasm-serve.processes" . | int64))) }}
{{- end -}}
{{- end -}}

{{/* The configuration file, as JSON: Helm writes large numbers to YAML as floats. */}}
{{- define "wasm-serve.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.apiKeys.existingSecret -}}
{{- $keys := default list $config.apiKeys -}}
{{- range $index, $_ := .Values.apiKeys.keys -}}{{- $keys = append $keys (printf "${WASM_SERVE_CHART_API_KEY_%d}" $index) -}}{{- end -}}
{{- $_ := set $config "apiKeys" $keys -}}
{{- end -}}
{{- if or .Values.fleet.url .Values.fleet.existingSecret $config.fleet -}}
{{- range list "watch" "registryPollMs" -}}
{{- if index $config . -}}{{- fail (printf "config.%s: is not possible in a fleet: use wasm-serve fleet apply" .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.tls.existingSecret -}}
{{- $files := dict "cert" "/etc/wasm-serve/tls/tls.crt" "key" "/etc/wasm-serve/tls/tls.key" -}}
{{- $_ := set $config "tls" (merge $files (default dict $config.tls)) -}}
{{- end -}}
{{- $processes := $config.processes -}}
{{- if and $processes (not $config.processMemoryMax) -}}
{{- with include "wasm-serve.memoryMiB" . -}}
{{- /* The primary takes a share, too. One process is replaced before the kernel ends one. */ -}}
{{- $count := include "wasm-serve.processes" $ | int64 -}}
{{- $share := div (mul (int64 .) 1048576 9) (mul 10 $count) -}}
{{- /* Node.js, the server and a small plug-in have 80 MiB: a process whose usual size is above its share is replaced again and again. */ -}}
{{- if lt $share 100663296 -}}
{{- fail (printf "resources.limits.memory: %s MiB are too little for %d processes (config.processes, and one that starts them), which need 107 MiB each; raise it, or set config.processMemoryMax" . $count) -}}
{{- end -}}
{{- $_ := set $config "processMemoryMax" $share -}}
{{- end -}}
{{- end -}}
{{- toPrettyJson $config -}}
{{- end -}}

{{/* The plug-ins of the command line: none if the configuration file names them. */}}
{{- define "wasm-serve.plugins" -}}
{{- $words := list -}}
{{- range .Values.pluginVolumes -}}
{{- if or (not (regexMatch "^[a-z0-9]([-a-z0-9]{0,53}[a-z0-9])?$" (toString .name))) (lt (len .) 2) -}}
{{- fail (printf "pluginVolumes: %s needs a name of a-z, 0-9 and -, of at most 55 characters, and a source" (toJson .)) -}}
{{- end -}}
{{- end -}}
{{- $named := or .Values.config.plugins .Values.config.routes -}}
{{- if and $named .Values.plugin -}}
{{- fail "plugin: config.plugins or config.routes name plug-ins already; use one of them" -}}
{{- end -}}
{{- if .Values.plugin -}}{{- $words = list .Values.plugin -}}
{{- else if not $named -}}
{{- range .Values.pluginVolumes -}}{{- $words = append $words (printf "/plugins/%s" .name) -}}{{- end -}}
{{- if .Values.pluginFiles -}}{{- $words = append $words "/plugins/files" -}}{{- end -}}
{{- $words = default (list "/plugins") $words -}}
{{- end -}}
{{- toYaml $words -}}
{{- end -}}

{{/* Whether the configuration names something outside the cluster. */}}
{{- define "wasm-serve.needsPublic" -}}
{{- if regexMatch "oci://|https?://|\"jwksUrl\"|\"allowedHosts\":\\[\"|\"(source|plugin)\":\"\\$\\{" (include "wasm-serve.sources" .) -}}true{{- end -}}
{{- end -}}

{{- define "wasm-serve.needsStore" -}}
{{- $isRemote := not (regexMatch "^(memory:|lmdb:|$)" (default "" .Values.config.store)) -}}
{{- if or .Values.fleet.url .Values.fleet.existingSecret .Values.config.fleet $isRemote -}}true{{- end -}}
{{- end -}}

{{/* The value of OTEL_EXPORTER_OTLP_ENDPOINT; empty: there are no traces, or the collector is named elsewhere. */}}
{{- define "wasm-serve.collector" -}}
{{- range .Values.env -}}{{- if eq .name "OTEL_EXPORTER_OTLP_ENDPOINT" -}}{{ .value | default "a Secret" }}{{- end -}}{{- end -}}
{{- end -}}

{{/* Hosts, with the ports that are named, of the URLs in a text: a list of HOST:PORT, HOST or [ADDRESS]:PORT. */}}
{{- define "wasm-serve.hosts" -}}
{{- $hosts := list -}}
{{- range regexFindAll (printf "(%s)://[^/?#\"\\s]+" (index . 0)) (index . 1) -1 -}}
{{- $authority := regexReplaceAll "^.*@" (regexReplaceAll "^[a-z+]+://" . "") "" -}}
{{- $hosts = concat $hosts (splitList "," $authority) -}}
{{- end -}}
{{- $hosts | uniq | toYaml -}}
{{- end -}}

{{/* Ports that are open to some addresses: those of a list, and those that the hosts of URLs name. */}}
{{- define "wasm-serve.ports" -}}
{{- $ports := list -}}
{{- range index . 0 -}}{{- $ports = append $ports (int64 .) -}}{{- end -}}
{{- range index . 1 -}}
{{- with regexFind ":[0-9]+$" . -}}{{- $ports = append $ports (trimPrefix ":" . | int64) -}}{{- end -}}
{{- end -}}
{{- $ports | uniq | toYaml -}}
{{- end -}}

{{- define "wasm-serve.publicHosts" -}}
{{- include "wasm-serve.hosts" (list "oci|https?" (include "wasm-serve.sources" .)) -}}
{{- end -}}

{{- define "wasm-serve.publicPorts" -}}
{{- if and .Values.networkPolicy.publicPorts (include "wasm-serve.needsPublic" .) -}}
{{- include "wasm-serve.ports" (list .Values.networkPolicy.publicPorts (include "wasm-serve.publicHosts" . | fromYamlArray)) -}}
{{- end -}}
{{- end -}}

{{- define "wasm-serve.storePorts" -}}
{{- if and .Values.networkPolicy.storePorts (include "wasm-serve.needsStore" .) -}}
{{- $text := printf "%s %s" .Values.fleet.url (toRawJson .Values.config) -}}
{{- $hosts := include "wasm-serve.hosts" (list "rediss?([+]sentinel)?" $text) | fromYamlArray -}}
{{- include "wasm-serve.ports" (list .Values.networkPolicy.storePorts $hosts) -}}
{{- end -}}
{{- end -}}

{{- define "wasm-serve.collectorPorts" -}}
{{- $collector := include "wasm-serve.collector" . -}}
{{- if and .Values.networkPolicy.collectorPorts $collector -}}
{{- $hosts := include "wasm-serve.hosts" (list "https?" $collector) | fromYamlArray -}}
{{- include "wasm-serve.ports" (list .Values.networkPolicy.collectorPorts $hosts) -}}
{{- end -}}
{{- end -}}

{{/* Rules for egress. A rule without ports, or without addresses, allows all of them: so an empty list makes no rule. */}}
{{- define "wasm-serve.egress" -}}
{{- with .Values.networkPolicy -}}
{{- $rules := list -}}
{{- if and .dns .dnsPorts -}}
{{- $ports := list -}}
{{- range $port := .dnsPorts -}}
{{- range list "UDP" "TCP" -}}{{- $ports = append $ports (dict "port" $port "protocol" .) -}}{{- end -}}
{{- end -}}
{{- $rules = append $rules (dict "ports" $ports "to" .dns) -}}
{{- end -}}
{{- $public := list -}}
{{- range $all := list "0.0.0.0/0" "::/0" -}}
{{- $except := list -}}
{{- range $.Values.networkPolicy.except -}}
{{- /* An API server refuses an exception of the other family. */ -}}
{{- if eq (contains ":" .) (contains ":" $all) -}}{{- $except = append $except . -}}{{- end -}}
{{- end -}}
{{- $block := dict "cidr" $all -}}
{{- with $except -}}{{- $_ := set $block "except" . -}}{{- end -}}
{{- $public = append $public (dict "ipBlock" $block) -}}
{{- end -}}
{{- range $kind := list "public" "store" "collector" -}}
{{- $ports := list -}}
{{- range include (printf "wasm-serve.%sPorts" $kind) $ | fromYamlArray -}}
{{- $ports = append $ports (dict "port" . "protocol" "TCP") -}}
{{- end -}}
{{- with $ports -}}
{{- $rules = append $rules (eq $kind "public" | ternary (dict "ports" . "to" $public) (dict "ports" .)) -}}
{{- end -}}
{{- end -}}
{{- concat $rules (default list .egress) | toYaml -}}
{{- end -}}
{{- end -}}

{{/* Hosts that have a private address, or may have one: the policy leaves these addresses out. */}}
{{- define "wasm-serve.privateHosts" -}}
{{- $hosts := list -}}
{{- range include "wasm-serve.publicHosts" . | fromYamlArray -}}
{{- $host := regexReplaceAll ":[0-9]+$" . "" -}}
{{- $isPrivate := regexMatch "^(10|127|169[.]254|192[.]168|172[.](1[6-9]|2[0-9]|3[01])|100[.](6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7]))[.][0-9.]+$|^\\[f[cde]" $host -}}
{{- if or $isPrivate (not (contains "." $host)) (regexMatch "[.](svc|local|internal|corp|lan|home|intranet|test)([.]|$)" $host) -}}
{{- $hosts = append $hosts . -}}
{{- end -}}
{{- end -}}
{{- $hosts | toYaml -}}
{{- end -}}

{{/* Variables that the chart sets. */}}
{{- define "wasm-serve.ownEnv" -}}
# The image sets these, too, and variables win over the configuration file.
- { name: WASM_SERVE_HOST, value: {{ .Values.config.host | quote }} }
- { name: WASM_SERVE_PORT, value: {{ include "wasm-serve.port" . | quote }} }
- { name: WASM_SERVE_PROBES, value: {{ include "wasm-serve.probes" . | quote }} }
- { name: WASM_SERVE_ADMIN, value: {{ ternary (printf "127.0.0.1:%d" (int64 .Values.admin.port)) "" .Values.admin.enabled | quote }} }
{{- with include "wasm-serve.heapMiB" . }}
- name: NODE_OPTIONS
  value: --max-old-space-size={{ . }}
{{- end }}
{{- if .Values.fleet.existingSecret }}
- name: WASM_SERVE_FLEET
  valueFrom: { secretKeyRef: { name: {{ .Values.fleet.existingSecret | quote }}, key: {{ .Values.fleet.key | quote }} } }
{{- else if .Values.fleet.url }}
- name: WASM_SERVE_FLEET
  value: {{ .Values.fleet.url | quote }}
{{- end }}
{{- if .Values.admin.enabled }}
- name: WASM_SERVE_ADMIN_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ required "admin.existingSecret: the Secret with the token is needed, because each pod would make another" .Values.admin.existingSecret | quote }}
      key: {{ .Values.admin.key | quote }}
{{- end }}
{{- if .Values.apiKeys.existingSecret }}
{{- range $index, $key := .Values.apiKeys.keys }}
- name: WASM_SERVE_CHART_API_KEY_{{ $index }}
  valueFrom: { secretKeyRef: { name: {{ $.Values.apiKeys.existingSecret | quote }}, key: {{ $key | quote }} } }
{{- end }}
{{- end }}
{{- if or .Values.registryCredentials.existingSecret .Values.registryCredentials.helpers }}
- name: DOCKER_CONFIG
  value: /etc/wasm-serve/registry
{{- end }}
{{- if .Values.cache.enabled }}
- name: XDG_CACHE_HOME
  value: /cache
{{- end }}
{{- end -}}

{{/* All variables. Those of the values replace the chart's: an API server refuses a name that is there twice. */}}
{{- define "wasm-serve.env" -}}
{{- $further := tpl (default list .Values.env | toYaml) . | fromYamlArray -}}
{{- $names := list -}}
{{- range $further -}}{{- $names = append $names .name -}}{{- end -}}
{{- $env := list -}}
{{- range include "wasm-serve.ownEnv" . | fromYamlArray -}}
{{- if not (has .name $names) -}}{{- $env = append $env . -}}{{- end -}}
{{- end -}}
{{- concat $env $further | toYaml -}}
{{- end -}}

{{/* Whether the values tell the path of a plug-in: the chart does not see which plug-ins a volume has. */}}
{{- define "wasm-serve.isPathKnown" -}}
{{- with .Values -}}
{{- if or .plugin .config.plugins .config.routes .pluginFiles (not .pluginVolumes) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* The path of a plug-in, for the first request. */}}
{{- define "wasm-serve.path" -}}
{{- with .Values -}}
{{- if .plugin -}}/
{{- else if .config.plugins -}}/{{ keys .config.plugins | sortAlpha | first }}
{{- else if .config.routes -}}{{ (first .config.routes).url }}
{{- else if .pluginFiles -}}/{{ keys .pluginFiles | sortAlpha | first | trimSuffix ".wasm" }}
{{- else -}}/{{ ternary "PLUGIN" "hello" (not (empty .pluginVolumes)) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The same behind an Ingress or a Gateway, which passes on the paths with a prefix. */}}
{{- define "wasm-serve.pathBehind" -}}
{{- $path := include "wasm-serve.path" (index . 0) -}}
{{- ternary $path (index . 1) (hasPrefix (index . 1) $path) -}}
{{- end -}}

{{/* Rules of the Ingress: a host, and its paths. */}}
{{- define "wasm-serve.ingressHosts" -}}
{{- $ := . -}}
{{- $default := dict "path" .Values.ingress.path "pathType" .Values.ingress.pathType -}}
{{- $hosts := list -}}
{{- range default (list "") .Values.ingress.hosts -}}
{{- $host := kindIs "string" . | ternary (dict "host" .) . -}}
{{- $paths := list -}}
{{- range default (list $default) $host.paths -}}
{{- $paths = append $paths (dict "path" .path "pathType" (default $.Values.ingress.pathType .pathType)) -}}
{{- end -}}
{{- $hosts = append $hosts (dict "host" $host.host "paths" $paths) -}}
{{- end -}}
{{- toYaml $hosts -}}
{{- end -}}

{{/* The program of the init container that makes the folder of the cache: a volume's own folder has mode 0777, which wasm-serve does not trust. */}}
{{- define "wasm-serve.makeCache" -}}
require('fs').mkdirSync('/volume/cache', { recursive: true, mode: 0o700 })
{{- end -}}
