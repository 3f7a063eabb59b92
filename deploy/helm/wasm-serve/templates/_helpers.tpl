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
{{- $chart := printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" -}}
{{- $release := dict "app.kubernetes.io/managed-by" $.Release.Service "helm.sh/chart" $chart -}}
{{- merge (include "wasm-serve.podLabels" . | fromYaml) $release | toYaml -}}
{{- end -}}

{{/* The same without those that change with each version of the chart, which would replace the pods. */}}
{{- define "wasm-serve.podLabels" -}}
{{- $ := index . 0 -}}
{{- $version := dict "app.kubernetes.io/version" $.Chart.AppVersion -}}
{{- merge (include "wasm-serve.selectorLabels" $ | fromYaml) (index . 1 | default dict) (default dict $.Values.commonLabels) $version | toYaml -}}
{{- end -}}

{{- define "wasm-serve.serviceAccountName" -}}
{{- default (ternary (include "wasm-serve.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "wasm-serve.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}
{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
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
{{- $text := printf "%s %s" .Values.plugin (toJson .Values.config) -}}
{{- if regexMatch "oci://|https?://|\"jwksUrl\"|\"allowedHosts\":\\[\"|\"(source|plugin)\":\"\\$\\{" $text -}}true{{- end -}}
{{- end -}}

{{- define "wasm-serve.needsStore" -}}
{{- $isRemote := not (regexMatch "^(memory:|lmdb:|$)" (default "" .Values.config.store)) -}}
{{- if or .Values.fleet.url .Values.fleet.existingSecret .Values.config.fleet $isRemote -}}true{{- end -}}
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
{{- if .Values.registryCredentials.existingSecret }}
- name: DOCKER_CONFIG
  value: /etc/wasm-serve/registry
{{- end }}
{{- end -}}

{{/* All variables. Those of the values replace the chart's: an API server refuses a name that is there twice. */}}
{{- define "wasm-serve.env" -}}
{{- $further := tpl (toYaml .Values.env) . | fromYamlArray -}}
{{- $names := list -}}
{{- range $further -}}{{- $names = append $names .name -}}{{- end -}}
{{- $env := list -}}
{{- range include "wasm-serve.ownEnv" . | fromYamlArray -}}
{{- if not (has .name $names) -}}{{- $env = append $env . -}}{{- end -}}
{{- end -}}
{{- concat $env $further | toYaml -}}
{{- end -}}

{{/* The path of a plug-in, for the first request. The chart does not see which plug-ins a volume has. */}}
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
