"""What the page of packages shows: for each package its guides, and names by module."""

PACKAGES = {
    "formats": [
        "[Choosing a format](../guides/formats.md) is the guide.",
        "formats.kinds: register",
        "formats.passages: passage",
        "formats.building: any_of checked concatenate from_texts literal repeated",
        "formats.patterns: from_pattern",
    ],
    "corpus": [
        "[Corpora](../guides/corpora.md) is the guide. A file format of your own is a subclass of "
        "`LineCorpus` or `FileCorpus` that you add to `FILE_FORMATS`, or an entry point in the "
        "group `canary.corpora`.",
        "corpus.injection: inject_file",
        "corpus.passage_sets: draw_passages",
        "corpus.pools: Pool joined",
        "corpus.placements: Placements",
        "corpus.record_steps: injection_step InjectionStep",
        "corpus.training_steps: steps_in_order megatron_steps",
        "corpus.stripping: strip_file Stripped",
        "corpus.corpora: Corpus FileCorpus Edits",
        "corpus.line_corpus: LineCorpus",
        "corpus.file_formats: FILE_FORMATS",
        "corpus.columns: Slot Edit edit_text",
    ],
    "tokens": [
        "tokens.tokenizer: Tokenizer Encoding",
        "tokens.fast: FastTokenizer as_tokenizer read_tokenizer",
        "tokens.candidates: CandidateEncoder misread",
        "tokens.tree: compile_tree list_tree leaf_numbers",
    ],
    "models": [
        "[Models](../guides/models.md), [Your own model](../guides/own-models.md) and "
        "[Served models](../guides/served-models.md) are the guides. An adapter for a model of "
        "another kind implements the protocol `LanguageModel`.",
        "models.language_model: LanguageModel Walker Context Rows Nodes Children "
        "Expansion Memory Moments Spread TellsMoments TellsQueries most_queries",
        "models.decoding: Scheme Decoded TellsDecoding",
        "models.table_model: TableModel",
        "models.by_scoring: RowModel",
        "models.noise: with_measured_noise",
        "models.new_tokens: add_new_tokens",
        "models.served.endpoint: Endpoint",
        "models.served.rehearsal: count_requests",
        "models.recurrent: RecurrentModel",
        "models.classifier: Classifier EstimatorClassifier GradientFeatures as_classifier",
        "models.masked: MaskedModel load_masked",
        "models.remote_model: SpreadModel",
        "models.remote_worker: KeptModel",
        "models.conformance: CHECKS DeviationError",
    ],
    "scoring": [
        "[Scoring](../guides/scoring.md) and [Long runs](../guides/long-runs.md) are the guides. "
        "`RunOptions` says how a model is run, `ScoreOptions` also what comes before a text.",
        "scoring.score_job: score_file ScoredFile",
        "scoring.pool_sampling: sample_pool",
        "scoring.run_options: ScoreOptions RunOptions",
        "scoring.batcher: Batcher row_sums",
        "scoring.served_requests: announce",
    ],
    "search": [
        "search.enumerate: enumerate_leaves leaf_costs Leaves",
        "search.step: Step Frontier root_frontier expand",
        "search.rank_counter: Census CensusResult RankBounds Limits bounds_by_place",
        "search.shortest: shortest_leaves Shortest",
        "search.completion: complete Completed",
    ],
    "audits": [
        "[Audits](../guides/audits.md) and [Extraction](../guides/extraction.md) are the guides. "
        "A method of your own is a subclass of `Method` that you add to `METHODS` of "
        "`canary.audits.choosing`, or an entry point in the group `canary.methods`.",
        "audits.completing: completions",
        "audits.extracting: with_extractions",
        "audits.question: AuditOptions Question",
        "audits.method: Method Cost Unfit Measured",
        "audits.history: History Moment WatchedCanary WatchedFormat Loss",
    ],
    "gate": [
        "[The gate](../guides/gate.md) is the guide.",
        "gate.baselines: Baseline Kept Measured",
        "gate.regression: more_than",
        "gate.coins: EpsilonBound epsilon_bound",
    ],
    "statistics": [
        "[Statistics](../guides/statistics.md) is the guide.",
        "statistics.exposures: Exposure exposure_by_rank exposure_by_draws exposure_by_bounds "
        "exposure_by_bounds_and_draws",
        "statistics.extrapolation: SkewNormalFit exposure_by_skew_normal skew_normal_bits",
        "statistics.pvalues: CombinedP fisher holm",
        "statistics.medians: MedianInterval median_interval agreeing canaries_to_decide",
        "statistics.resampling: Resampled resampled larger_in_pairs larger_in_groups",
        "statistics.epsilon: epsilon_lower_bound correct_guesses guessing_p_value",
        "statistics.power: evidence_power limit_power canaries_for smallest_seen draws_to_tell",
        "statistics.histogram: Histogram HistogramBuilder",
        "statistics.skewnormal: SkewNormal log_integral",
        "statistics.skewfit: fit_skew_normal refit_skew_normal",
        "statistics.roc: balanced_accuracy roc",
        "statistics.clustered: ClusteredShare ShareDifference clustered_share clustered_difference",
        "statistics.shares: clopper_pearson difference_interval tpr_interval "
        "nonmembers_for_lower_end nonmembers_to_decide",
        "statistics.distances: Distance ks_distance chance_distance resampled_distance "
        "ratio_interval lies_lower Correlation correlation",
        "statistics.tails: gaussian_evidence gaussian_quantile rank_evidence rank_quantile",
    ],
    "signals": [
        "[Membership attacks](../guides/membership.md) and "
        "[Membership attacks on texts](../guides/membership-text.md) are the guides.",
        "signals.definitions: SIGNALS Signal",
        "signals.class_signals: signals_of log_probs_of",
        "signals.signal_table: check_tied",
        "signals.measuring: table_of_files",
        "signals.output_files: pieces_of",
        "signals.gradients: gradient_features",
        "signals.text_measuring: TextTable measure_texts",
        "signals.token_losses: TokenLosses token_losses",
        "signals.text_files: Texts read_texts",
        "signals.text: TEXT_SIGNALS TextSignal PricedTexts TokenPrices lowest",
        "signals.text_pricing: Rewriter",
    ],
    "fleet": [
        "[Fleets](../guides/fleets.md) is the guide.",
        "fleet.training: TrainingTask Trained Training",
        "fleet.torch_training: TorchTraining Schedule",
        "fleet.splits: Split halves subsets leave_one_out soft_labelled with_and_without Drawn",
        "fleet.store: table_of_folder",
    ],
    "passages": [
        "Which passages of training text a model repeats; "
        "[Verbatim](../guides/verbatim.md) is the guide.",
        "passages.result: Verbatim Passages Extractable",
        "passages.near_walk: NearMass near_mass",
        "passages.sampled: Sampled Sought Chance",
        "passages.tries: tries_for comes_out",
        "passages.windows: Windows Grid cut refuse_overlap",
    ],
    "workers": [
        "[On a cluster](../guides/distributed.md) is the guide.",
        "workers.local: Here",
        "workers.cluster: RayWorkers",
        "workers.jobs: Workers Task Plain Lost",
    ],
    "membership": [
        "[Membership attacks](../guides/membership.md) and "
        "[Attacks with many models](../guides/many-models.md) are the guides.",
        "membership.shadow_survey: ShadowSurvey",
        "membership.text_survey: TextSurvey survey_texts",
        "membership.order: order",
        "membership.order_result: Order Preference",
        "membership.shuffles: preference",
        "membership.models_result: ModelsSurvey AttackedModels SampleScores",
        "membership.survey: Survey Attacked Surest",
        "membership.attacking: Thresholds learn_thresholds",
        "membership.risk: RiskScores risk_scores Reliability reliability",
        "membership.evaluation: Part evaluate_by",
        "membership.privacy: AttackEpsilon attack_epsilon",
        "membership.analysis: ClassRisks class_risks possible_class_risks RiskBand by_risk risk_at "
        "Guesses sensitivity precision_recall Leakage leakage FeatureDistances feature_distances",
        "membership.neural: NEURAL neural_attack white_box_attack arranged",
        "membership.words_alone: WordsAlone words_alone by_columns",
        "membership.sharing: SharedRows shared_rows check_two_models check_references Repeat "
        "repeated_models row_marks",
        "membership.samples_needed: AttackPlan plan_attacks FPRS",
        "membership.many: ManyScores attack_models loss_thresholds",
        "membership.attacks: ATTACKS Attack Tuning with_many_models",
        "membership.loss_tests: by_class by_model by_sample",
        "membership.lira: lira",
        "membership.rmia: rmia",
        "membership.voting: attack_windows votes",
        "membership.token_lira: attack_tokens products",
        "membership.references: kept",
        "membership.aggregate: evaluate_models mean_estimate Across rates Rates sample_auc "
        "SampleAuc agreement Agreement over_fleets OverFleets Spread groups_of",
        "membership.counterfactual: Counterfactual counterfactual",
        "membership.diagnostics: growth Growth null_losses NullLosses scatter Scatter",
    ],
    "reports": [
        "[Reports](../guides/reports.md) is the guide.",
        "reports.builders: report_of figure_of section",
        "reports.document: Report Section Heading Table Tile Facts Figure Panel Axis Mark Bullets "
        "Note Span prose sentence said said_in_one mark words_of paragraphs_of",
        "reports.seeds_cells: Cell Pair",
        "reports.markdown: markdown_of",
        "reports.model_card: write_model_card",
        "reports.annex: write_annex",
        "reports.verdicts: explained verdict_report markdown write_markdown junit write_junit",
    ],
    "records": [
        "[Files that canary writes](../guides/records.md) is the guide.",
        "records.versioned_json: load_document dump_document render_document kind_of",
        "records.files: atomic_write atomic_writer check_replaceable check_writable kind_there "
        "make_folder folder_made begin_part alone",
        "records.progress: Progress Advance",
        "records.shards: open_run Run Series Shard Pace Difference differences publish discard_run "
        "finished_pieces",
    ],
    "plugins": [
        "[While training](../guides/monitor.md) and [Tests with pytest](../guides/pytest.md) are "
        "the guides.",
        "plugins.monitor: ExposureMonitor",
        "plugins.verbatim_monitor: VerbatimMonitor",
        "plugins.callback: ExposureCallback VerbatimCallback",
        "plugins.pytest_plugin: canary_audit canary_baseline",
    ],
}
